import os
import subprocess
import sys

import numpy as np
import pytest

from fedhpo.data import cache


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDHPO_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "source.bin"
    file.write_bytes(b"one")
    return file


class Decoder:
    calls = 0

    def __call__(self):
        self.calls += 1
        return {"x": np.arange(6).reshape(2, 3), "names": np.array(["a", "bc"])}


def test_decodes_once_and_maps_files(source):
    decode = Decoder()
    for _ in range(2):
        arrays = cache.cached("set", source, {"stride": 1}, decode)
        assert isinstance(arrays["x"], np.memmap)
        assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert arrays["names"].tolist() == ["a", "bc"]
        assert not arrays["x"].flags.writeable
    assert decode.calls == 1
    assert [p.name[:4] for p in cache.cache_directory().iterdir()] == ["set-"]


def test_another_source_option_or_format_is_another_entry(source, monkeypatch):
    decode = Decoder()
    cache.cached("set", source, {"stride": 1}, decode)
    cache.cached("set", source, {"stride": 2}, decode)
    assert decode.calls == 2
    os.utime(source, ns=(1, 1))
    cache.cached("set", source, {"stride": 1}, decode)
    assert decode.calls == 3
    monkeypatch.setattr(cache, "FORMAT", -1)
    cache.cached("set", source, {"stride": 1}, decode)
    assert decode.calls == 4


def test_damaged_entry_is_built_anew(source):
    decode = Decoder()
    cache.cached("set", source, {}, decode)
    (entry,) = cache.cache_directory().iterdir()
    (entry / "x.npy").write_bytes(b"\x93NUMPY")
    assert cache.cached("set", source, {}, decode)["x"].sum() == 15
    assert decode.calls == 2
    assert cache.cached("set", source, {}, decode)["x"].sum() == 15
    assert decode.calls == 2


def test_place_that_cannot_be_written_warns_and_goes_on(source, monkeypatch):
    monkeypatch.setenv("FEDHPO_CACHE", str(source / "below-a-file"))
    with pytest.warns(UserWarning, match="cannot keep decoded set .* Set FEDHPO_CACHE"):
        arrays = cache.cached("set", source, {}, Decoder())
    assert arrays["x"].sum() == 15


def test_failed_decoding_leaves_nothing(source):
    def fail():
        raise RuntimeError("cut short")

    with pytest.raises(RuntimeError, match="cut short"):
        cache.cached("set", source, {}, fail)
    assert not cache.cache_directory().exists()


def test_processes_may_write_the_same_entry_at_once(source):
    code = (
        "import sys, pathlib, numpy as np; from fedhpo.data.cache import cached\n"
        "a = cached('set', pathlib.Path(sys.argv[1]), {}, lambda: {'x': np.full(500_000, 3)})\n"
        "print(int(a['x'].sum()), type(a['x']).__name__)"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(source)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].split() for process in running] == [["1500000", "memmap"]] * 3
    assert len(list(cache.cache_directory().iterdir())) == 1

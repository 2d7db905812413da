"""Names: ours, a user's own, and what installed packages bring by entry points of the group `fedhpo`."""

import sys

import pytest

from fedhpo.core.errors import InputError
from fedhpo.core.registry import Registry


def install(folder, name, points, code=""):
    """A package as pip would leave it: a module, and metadata with entry points."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fedhpo]\n" + "\n".join(points) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("brings_pbt", "brings_more"):
        sys.modules.pop(name, None)


METHODS = Registry("method", {"sha": "ours"})


def test_an_entry_point_is_a_name_and_is_loaded_when_asked_for(folder):
    install(
        folder,
        "brings_pbt",
        ["method.pbt = brings_pbt:PBT", "sampler.near = brings_pbt:Near"],
        "class PBT: ...",
    )
    assert METHODS.names() == ["sha", "pbt"]
    assert METHODS.brings("pbt")
    assert not METHODS.brings("near")  # of another kind
    assert "brings_pbt" not in sys.modules
    assert METHODS.find("pbt").__module__ == "brings_pbt"
    with pytest.raises(
        InputError, match=r"method\.name: unknown method 'pbbt' \(did you mean 'pbt'\?\); known: pbt, sha"
    ):
        METHODS.find("pbbt", "method.name")


def test_a_name_of_ours_is_always_ours(folder):
    install(folder, "brings_pbt", ["method.sha = brings_pbt:Evil"], "raise SystemExit")
    assert METHODS.names() == ["sha"]
    assert METHODS.find("sha") == "ours"
    assert not METHODS.brings("sha")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("", "module 'brings_pbt' has no attribute 'PBT'"),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("PBT = 3", "it is an int, neither a function nor a class"),
    ],
)
def test_one_that_cannot_be_loaded_is_told_with_its_package(folder, code, told):
    install(folder, "brings_pbt", ["method.pbt = brings_pbt:PBT"], code)
    with pytest.raises(InputError) as error:
        METHODS.find("pbt", "method.name")
    assert str(error.value).startswith(
        "method.name = 'pbt': the entry point 'method.pbt' (brings_pbt:PBT) cannot be loaded: "
    )
    assert told in str(error.value)


def test_two_packages_with_one_name_must_be_told_apart(folder):
    install(folder, "brings_pbt", ["method.pbt = brings_pbt:PBT"], "class PBT: ...")
    install(folder, "brings_more", ["method.pbt = brings_more:PBT"], "class PBT: ...")
    with pytest.raises(
        InputError, match="several installed packages bring it: brings_more:PBT and brings_pbt:PBT"
    ):
        METHODS.find("pbt")
    assert METHODS.find("brings_more:PBT").__module__ == "brings_more"


def test_kinds_are_few():
    with pytest.raises(InputError, match="unknown kind 'methods'"):
        Registry("methods", {})

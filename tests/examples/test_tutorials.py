"""The tutorials' scripts run. Their notebooks, made from them, are executed by `make docs`."""

import runpy
import shutil
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted((EXAMPLES / "tutorials").glob("*.py"))
#: What each says.
SAID = {
    "a_method": "tests, such as",
    "fine_tuning": "adapter 4096 bytes",
    "first_study": "momentun",
    "flower_clients": "the disk is full",
    "hospital_tables": "['ill']",
    "noise_and_privacy": "permute-and-flip",
    "while_training": "random search",
}
#: What takes long, and what says the same in less time.
SMALLER = {"noise_and_privacy": ("SEEDS = range(20)", "SEEDS = range(2)")}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_runs(script, tmp_path, monkeypatch, capsys):
    if script.stem == "flower_clients":
        pytest.importorskip("flwr")
    if script.stem == "fine_tuning":
        pytest.importorskip("peft")
        monkeypatch.delenv("FEDHPO_DATA", raising=False)
    for folder in ("users", "tutorials"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path / "tutorials")
    copy = tmp_path / "tutorials" / script.name
    if script.stem in SMALLER:
        whole, small = SMALLER[script.stem]
        assert whole in copy.read_text()
        copy.write_text(copy.read_text().replace(whole, small))
    runpy.run_path(str(copy), run_name="__main__")
    assert SAID[script.stem] in capsys.readouterr().out

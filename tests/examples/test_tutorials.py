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
    "first_study": "momentun",
    "flower_clients": "the disk is full",
    "hospital_tables": "['ill']",
    "noise_and_privacy": "permute-and-flip",
    "while_training": "random search",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_runs(script, tmp_path, monkeypatch, capsys):
    if script.stem == "flower_clients":
        pytest.importorskip("flwr")
    for folder in ("users", "tutorials"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path / "tutorials")
    runpy.run_path(str(tmp_path / "tutorials" / script.name), run_name="__main__")
    assert SAID[script.stem] in capsys.readouterr().out

"""The four users' examples: each script runs, and so does its notebook in a kernel."""

import runpy
import shutil
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
USERS = EXAMPLES / "users"
SCRIPTS = sorted(USERS.glob("*.py"))
#: What each says at its end.
SAID = {
    "newcomer": "trials",
    "pytorch_researcher": "Pareto set",
    "flower_engineer": "num-server-rounds = 5",
    "data_scientist": "['ill']",
}
notebooks = runpy.run_path(str(EXAMPLES / "_notebooks.py"))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A copy, so that what the examples write does not stay."""
    for file in USERS.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_runs_and_is_short(script, elsewhere, capsys):
    source = script.read_text().splitlines()
    assert sum(bool(line.strip()) and not line.startswith("#") for line in source) < 40
    if script.stem == "flower_engineer":
        pytest.importorskip("flwr")
    runpy.run_path(str(elsewhere / script.name), run_name="__main__")
    assert SAID[script.stem] in capsys.readouterr().out


@pytest.mark.parametrize("script", notebooks["scripts"](), ids=lambda path: path.stem)
def test_the_notebook_is_that_of_the_script(script):
    made = script.with_suffix(".ipynb").read_text()
    assert made == notebooks["written"](script), "run: python examples/_notebooks.py"


def test_the_notebooks_are_executed(elsewhere, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    notebook = nbformat.v4.new_notebook()
    for script in SCRIPTS:  # in one kernel: most of the time goes into its imports
        notebook.cells += nbformat.read(elsewhere / f"{script.stem}.ipynb", as_version=4).cells
        notebook.cells.append(nbformat.v4.new_code_cell("%reset -f"))
    client.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(elsewhere)}}).execute()
    shown = "".join(
        output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    )
    for said in SAID.values():
        assert said in shown

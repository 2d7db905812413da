"""What the digest of the bench's code covers: all that a cell runs, and not what it cannot depend on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedhpo.testing.table import toy_table
from fedhpo_papers.bench.code import FOLDERS, code_digest, modules

_BENCH = "fedhpo_papers.bench"
_CELLS = f"{_BENCH}.cells"

#: Plays a cell of every entry that is not another one in a part only, and prints which modules that took.
_PLAYED = """
import sys
from fedhpo_papers.bench.cells import Cell, play
from fedhpo_papers.bench.entries import ENTRIES
from fedhpo_papers.bench.settings import Setting

private = [("random", Setting(2, 10.0)), ("sha", Setting(2, 10.0))]
plain = [(name, Setting(2)) for name, entry in ENTRIES.items() if entry.kind != "ablation" and not (
    entry.slow and name.startswith("optuna"))]
for name, setting in plain + private:
    play(Cell(sys.argv[1], setting, name, 0, (sys.argv[2],)))
print(*(name for name in sys.modules if name.split(".")[0] in ("fedhpo", "fedhpo_papers")))
"""


def _package(root: Path, **files: str) -> Path:
    folder = root / "p"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_change_counts_where_the_start_can_reach_it(tmp_path: Path) -> None:
    plain = {
        "__init__": "",
        "start": '"""Doc."""\nfrom p.used import f\n',
        "used": "def f():\n    from . import late\n    return late.x\n",
        "late": "x = 1\n",
        "other": "y = 1\n",
    }

    def told(**changes: str) -> str:
        folder = _package(tmp_path, **(plain | changes))
        code_digest.cache_clear()
        return code_digest((folder,), "p.start")

    first = told()
    assert set(modules([_package(tmp_path)], "p.start")) == {"p.start", "p.used", "p.late"}
    assert told(other="y = 2\n") == first
    assert told(start='"""Other words."""\n\n# why\nfrom p.used import (\n    f,\n)\n') == first
    assert told(late="x = 2\n") != first  # imported inside a function
    assert told(used="def f():\n    return 1\n") != first
    assert told(__init__="from p.other import y\n") == first  # what is beside the start
    code_digest.cache_clear()


def test_the_page_the_commands_and_training_do_not_count() -> None:
    found = modules(FOLDERS, _CELLS)
    packages = {name.split(".")[1] for name in found if "." in name}
    assert not packages & {"ui", "cli", "report", "commands", "flower", "trackers", "testing"}
    assert "fedhpo.engine.local" not in found
    assert {"fedhpo.samplers.bohb", "fedhpo.privacy.selection", "fedhpo.surrogates.process"} <= set(found)


def test_no_module_that_a_cell_loads_is_left_out(tmp_path: Path) -> None:
    paths = [tmp_path / "toy.table", tmp_path / "other.table"]
    for path in paths:
        toy_table(configs=16, rounds=9, clients=8).save(path)
    done = subprocess.run(
        [sys.executable, "-c", _PLAYED, *map(str, paths)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stderr)
    covered = set(modules(FOLDERS, _CELLS))
    # Of the model that a study names only the names of its settings are read: none is built.
    loaded = {name for name in done.stdout.split() if not name.startswith("fedhpo.models.")}
    # The package that the cells are in loads what plays them side by side and makes pages of them.
    beside = {f"{_BENCH}.{name}" for name in ("code", "estimates", "plan", "published", "results", "run")}
    assert loaded - covered == {_BENCH, *beside, "fedhpo.core.imports"}

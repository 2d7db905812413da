"""How much CPU it takes until anything happens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def cpu_seconds(arguments):
    """CPU time of a process, the least of five: other programs only ever add to it."""
    found = []
    for _ in range(5):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with process.stderr:
            said = process.stderr.read()
        assert process.returncode == 0, said
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)


@pytest.mark.parametrize(
    ("arguments", "most"), [(["-c", "import fedhpo"], 0.2), (["-m", "fedhpo", "--help"], 0.5)]
)
def test_it_starts_at_once(arguments, most):
    assert cpu_seconds(arguments) < most


def test_nothing_heavy_is_imported_before_it_is_used():
    heavy = {"torch", "sklearn", "scipy", "numpy", "plotly", "pydantic", "rich", "pandas"}
    code = f"import sys, fedhpo, fedhpo.cli; print(*({heavy} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert said.strip() == ""


def test_what_takes_long_to_import_is_imported_where_it_is_used():
    """`scipy.stats` takes long; only experiments and test suites have it from the start."""
    here = SOURCE / "fedhpo"
    found = {
        path.relative_to(here).parts[0]
        for path in here.rglob("*.py")
        if any(line.startswith("from scipy.stats") for line in path.read_text().splitlines())
    }
    assert found <= {"research", "testing"}


#: About 1,820 where this was written, 1,120 of them by `import torch`.
MOST_MODULES = 1_950
STUDY = """
name = "s"
[data]
name = "digits"
clients = 5
[model]
name = "mlp"
[space.client]
lr = {low = 0.01, high = 1.0, log = true}
[method]
name = "random"
trials = 2
[budget]
rounds = 1
cohort = 2
"""


def test_a_study_from_its_file_to_its_report_imports_no_more_than_it_needs(tmp_path):
    """Some 1,800 modules; torch's compiler, scikit-learn or pandas would be hundreds more."""
    (tmp_path / "s.toml").write_text(STUDY)
    code = (
        "import sys; from fedhpo.cli import main; assert main(['tune', 's.toml', '--workers', '0']) == 0; "
        "print('modules', len(sys.modules), *sorted({one.split('.')[0] for one in sys.modules}), "
        "'torch._dynamo' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True, cwd=tmp_path)
    _, count, *packages, compiler = said.splitlines()[-1].split()
    assert not {"sklearn", "pandas", "plotly", "sympy", "rich", "ray", "flwr", "optuna"} & set(packages)
    assert compiler == "False"
    assert int(count) < MOST_MODULES, count

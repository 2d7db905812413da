"""mypy and pyright agree on a user's script, and on its mistakes."""

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = [HERE / "user_script.py", HERE / "wrong_script.py"]


@functools.cache
def errors_of(checker):
    """By script: the lines with errors, and what is said of them."""
    ran = functools.partial(
        subprocess.run, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    found = {script.name: {} for script in SCRIPTS}
    if checker == "mypy":
        done = ran([sys.executable, "-m", "mypy", "--no-error-summary", *map(str, SCRIPTS)])
        assert not done.stderr, done.stderr
        for name, line, said in re.findall(r"(\w+\.py):(\d+): error: (.*)", done.stdout):
            found[name][int(line)] = said
        return found
    pytest.importorskip("pyright", reason="pyright is not installed")
    if shutil.which("node") is None:
        pytest.skip("pyright needs node, which is not installed")
    options = ["--outputjson", "--pythonpath", sys.executable]
    done = ran([sys.executable, "-m", "pyright", *options, *map(str, SCRIPTS)])
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found[Path(one["file"]).name][one["range"]["start"]["line"] + 1] = one["message"]
    return found


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_users_script_is_typed(checker):
    assert errors_of(checker)["user_script.py"] == {}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_mistakes_are_found(checker):
    lines = (HERE / "wrong_script.py").read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert set(errors_of(checker)["wrong_script.py"]) == wrong

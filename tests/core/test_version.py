"""Numbers of what is computed: each one raised has a line that names the commit before."""

import subprocess
from pathlib import Path

import pytest

from fedhpo.core import version
from fedhpo.core.version import COMMITS, NUMBERS, RAISED, VERSION, Raised, commit_of, way_back
from fedhpo.methods.registry import METHODS
from fedhpo.run.record import FORMAT, READABLE
from fedhpo.tuning.proxy import ProxySearch

ROOT = Path(__file__).parents[2]
#: The numbers that 0.2.0 had, where they are not 1.
THEN = {"record": 2, "robust": 3, **dict.fromkeys(("sha", "bohb", "fedpop", "fedpop-auto", "flora"), 2)}


def numbers_now():
    methods = {name: method.number for name, method in METHODS.items()}
    return {**NUMBERS, **methods, "proxy": ProxySearch.number, "record": FORMAT}


@pytest.mark.parametrize("what", numbers_now())
def test_every_number_that_was_raised_has_a_line_with_the_commit_before(what):
    """Whoever raises a number writes down which commit can still go on with older runs."""
    raised = [line.number for line in RAISED if line.what == what]
    assert raised == list(range(THEN.get(what, 1), numbers_now()[what]))


def test_all_formats_since_0_2_0_can_be_read():
    assert set(range(2, FORMAT + 1)) == READABLE


def test_the_first_number_to_be_raised_decides_how_far_to_go_back(monkeypatch):
    lines = (Raised("fedex", 1, "aaa"), Raised("engine", 1, "bbb"), Raised("fedex", 2, "ccc"))
    monkeypatch.setattr(version, "RAISED", lines)
    assert commit_of(VERSION, {"fedex": 1, "engine": 1}) == "aaa"
    assert commit_of(VERSION, {"fedex": 2, "engine": 1}) == "bbb"
    assert commit_of(VERSION, {"fedex": 2}) == "ccc"
    assert commit_of(VERSION, {"fedex": 4}) is None  # begun with a newer source
    assert commit_of("0.1.0", {"record": 1}) == COMMITS["0.1.0"]


def test_the_way_back_is_commands_of_a_clone():
    told = way_back(Path("runs/a"), "0.1.0", {})
    assert f"git checkout {COMMITS['0.1.0']}" in told
    assert "fedhpo==" not in told


def test_the_commits_are_there():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True)
    if shallow.stdout.strip() != b"false":
        pytest.skip("a clone without its history")
    for commit in [*COMMITS.values(), *(line.commit for line in RAISED)]:
        assert subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT).returncode == 0

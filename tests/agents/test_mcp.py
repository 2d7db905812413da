"""The server for coding agents: through the SDK's own client, and its limits one by one."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from fedhpo.agents.calls import calls_table
from fedhpo.agents.jobs import Jobs
from fedhpo.agents.limits import Limits
from fedhpo.agents.server import ACT, READ, checked_root, make_server
from fedhpo.agents.tools import Tools
from fedhpo.core.chained import read_chained
from fedhpo.core.errors import InputError

ROOT = Path(__file__).parents[2]


def bench() -> Any:
    spec = importlib.util.spec_from_file_location("agents_bench", ROOT / "benchmarks" / "agents.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: Any) -> Path:
    import os
    import sys

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_the_transcript_is_replayed_to_a_verified_improvement(root: Path) -> None:
    made = bench()
    steps = anyio.run(made.improve, root)
    assert len(steps) <= made.MOST_CALLS
    assert [one for one in steps if one["error"]] == []
    verified = next(one["answer"] for one in steps if one["tool"] == "verify")
    [verdict] = verified["verdicts"]
    assert verdict["verdict"] == "keep"
    assert verdict["pairs"] >= 9
    low, high = verdict["difference"]["interval_95"]
    assert 0 < low < verdict["difference"]["mean"] < high
    assert "test" not in json.dumps([one["answer"] for one in steps[1:]]).replace("latest", "")
    page = (ROOT / "docs" / "agents-transcript.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \d+\. `(\w+)`$", page, re.M) == [one["tool"] for one in steps]
    blocks = re.findall(r"```json\n(.*?)\n```", page, re.S)
    for one, shown in zip(steps, blocks[::2], strict=True):
        assert shown == made._cut(one["arguments"], 900)
    assert '"verdict": "keep"' in page
    lines, _, _ = read_chained(root / "agents.journal")
    assert [one["tool"] for one in lines[1:]] == [one["tool"] for one in steps]
    shown = calls_table(root / "runs")
    assert shown is not None
    assert [row[1] for row in reversed(shown["rows"])] == [one["tool"] for one in steps]


def test_hostile_calls_are_refused_and_nothing_runs(root: Path) -> None:
    calls, wrong = anyio.run(bench().attack, root)
    assert wrong == []
    assert len(calls) >= 40
    assert all(one["error"] for one in calls)


def test_descriptions_are_ours_and_hints_say_who_writes(root: Path) -> None:
    server, tools, calls = make_server(Limits(root))
    found = {one.name: one for one in anyio.run(server.list_tools)}
    assert set(found) == {*READ, *ACT}
    for name, one in found.items():
        assert one.annotations.read_only_hint == (name in READ)
        assert one.description == getattr(Tools, name).__doc__
    tools.close()
    calls.close()


def test_two_servers_do_not_share_a_root(root: Path) -> None:
    _, tools, calls = make_server(Limits(root))
    with pytest.raises(InputError, match="in use by another process"):
        make_server(Limits(root))
    tools.close()
    calls.close()
    for place in ("/", str(Path.home()), str(root / "nowhere")):
        with pytest.raises(InputError, match="--root"):
            checked_root(place)


def test_rounds_and_epsilon_are_those_of_the_session(root: Path) -> None:
    limits = Limits(root, rounds=100, epsilon=1.0)
    limits.check_rounds(100, 0, "it")
    with pytest.raises(InputError, match="80 of the 100"):
        limits.check_rounds(81, 20, "it")
    private = limits.study(bench().PRIVATE.replace("epsilon = 5.0", "epsilon = 0.75"))
    assert limits.check_epsilon(private, 0.0) == 0.75
    with pytest.raises(InputError, match=r"0\.5 of the 1"):
        limits.check_epsilon(private, 0.5)


def test_code_may_be_named_where_the_person_allows_it(root: Path) -> None:
    text = bench().STUDY.split("[method")[0].replace('name = "mlp"', 'name = "math:sqrt"')
    with pytest.raises(InputError, match="did not allow"):
        Limits(root).check_tables({"model": {"name": "math:sqrt"}})
    assert Limits(root, code=True).study(text).file.model.name == "math:sqrt"


def test_a_study_under_way_takes_proposals_and_a_finished_one_does_not(root: Path) -> None:
    made, tools = bench(), Tools(Limits(root))
    tools.check(made.STUDY, save="base.toml")
    found = tools.propose("base.toml", [{"client": {"lr": 0.25}}])
    assert found["proposed"] == 1
    assert json.loads((root / "proposals.jsonl").read_text())["client"]["lr"] == 0.25
    with pytest.raises(InputError, match=r"configs\[1\]"):
        tools.propose("base.toml", [{"client": {"lr": 0.5}}, {"client": {"width": 3}}])
    tools.tune("base.toml", "first", wait=500)
    assert 0.25 in [row["client.lr"] for row in tools._result("runs/first").trials]
    with pytest.raises(InputError, match="has finished"):
        tools.propose("runs/first", [{"client": {"lr": 0.5}}])
    left = tools.limits()["rounds"]["left"]
    assert left == 2_000 - 81
    tools.close()


def test_no_answer_holds_a_test_score(root: Path) -> None:
    """A study's result has test scores; what tools say of it has neither their key nor their value."""
    made, tools = bench(), Tools(Limits(root))
    plain = (
        made.STUDY.split("[method")[0].replace("rounds = 9", "rounds = 3").replace("total = 81", "total = 9")
    )
    tools.check(plain, save="base.toml")
    tools.check(plain.replace("0.02", "0.3"), save="other.toml")
    answers = [
        tools.tune("base.toml", "first", wait=500),
        tools.status(),
        tools.runs(),
        tools.results("runs/first"),
        tools.curves("runs/first"),
        tools.verify("base.toml", "other.toml", "c", pairs=6, wait=500),
        tools.comparison("campaigns/c"),
    ]
    facts = tools._result("runs/first").facts
    tested = facts["best"]["test"]
    assert {"value", "loss", "accuracy"} <= tested.keys()
    for answer in answers:
        numbers, words = [], []
        _spread(answer, numbers, words)
        assert not {round(tested[key], 9) for key in ("value", "loss")} & {round(one, 9) for one in numbers}
        assert not [word for word in words if "test" in word]
    tools.close()


def _spread(value: Any, numbers: list[float], words: list[str]) -> None:
    """All numbers, keys and texts in an answer."""
    if isinstance(value, dict):
        words += map(str, value)
        for one in value.values():
            _spread(one, numbers, words)
    elif isinstance(value, list | tuple):
        for one in value:
            _spread(one, numbers, words)
    elif isinstance(value, str):
        words.append(value)
    elif isinstance(value, int | float) and value not in (0, 1):
        numbers.append(value)


@pytest.mark.parametrize("tool", ["tune", "verify"])
def test_a_study_that_changes_after_the_check_is_not_run(root: Path, tool: str, monkeypatch: Any) -> None:
    """The file is exchanged between check and start for one that names code: none of it is imported."""
    made, tools = bench(), Tools(Limits(root))
    plain = made.STUDY.split("[method")[0]
    tools.check(plain, save="base.toml")
    tools.check(plain.replace("0.02", "0.3"), save="other.toml")
    (root / "trap.py").write_text("from pathlib import Path\nPath('sprung').touch()\nNet = None\n")
    start = tools._jobs.start

    def changed(*arguments: Any) -> Any:
        (root / "base.toml").write_text(plain.replace('name = "mlp"', 'name = "trap:Net"'))
        return start(*arguments)

    monkeypatch.setattr(tools._jobs, "start", changed)
    call = {"tune": ("base.toml", "first"), "verify": ("base.toml", "other.toml")}[tool]
    with pytest.raises(InputError, match="was changed after it was checked"):
        getattr(tools, tool)(*call, wait=500)
    assert not (root / "sprung").exists()
    assert not (root / "runs").exists()
    assert not list(root.glob("campaigns/*.html"))
    tools.close()


def test_a_wrong_time_to_wait_starts_nothing(root: Path) -> None:
    made, tools = bench(), Tools(Limits(root))
    tools.check(made.STUDY, save="base.toml")
    for call in (lambda: tools.tune("base.toml", "first", wait=-1), lambda: tools.status(wait=1e9)):
        with pytest.raises(InputError, match="wait must be"):
            call()
    assert tools._jobs.current is None
    assert not (root / "runs").exists()
    (root / "runs").symlink_to(root.parent)
    with pytest.raises(InputError, match="outside the root"):
        tools.tune("base.toml", "first")
    tools.close()


def test_a_job_that_takes_too_long_ends_though_nobody_asks(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\n\ndef one(seed):\n    time.sleep(600)\n\ntwo = one\n")
    jobs = Jobs(tmp_path, seconds=0.5)
    job = jobs.start("verify", ["verify", "slow:one", "slow:two", "--quiet"], 0, 1)
    assert job.process.wait(timeout=60) != 0
    jobs.close()

"""A run that was cut ends like the uncut one: every method, continued by `tune`, by `resume`, by both."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from order_cases import SMALL, as_toml, study_of

from fedhpo.cli import main
from fedhpo.methods import METHODS
from fedhpo.run.record import Record

#: Who carries on after each of the three cuts.
CARRIERS = {
    "tune": ("tune", "tune", "tune"),
    "resume": ("resume", "resume", "resume"),
    "both in turn": ("resume", "tune", "resume"),
}


class Cut(BaseException):
    """Stands for a kill."""


class Cutter:
    """Ends the process, so to speak, when a record of the run itself holds so many events."""

    def __init__(self) -> None:
        self.after: int | None = None
        self.kinds: list[str] = []

    def before(self, record: Record, kind: str) -> None:
        if record.directory.name == "proxy":
            return
        if self.after is not None and record.last >= self.after:
            raise Cut
        self.kinds.append(kind)


@pytest.fixture
def cutter(monkeypatch: pytest.MonkeyPatch) -> Cutter:
    cutter, append = Cutter(), Record.append

    def appended(self: Record, kind: str, *arguments: Any, **settings: Any) -> int:
        cutter.before(self, kind)
        return append(self, kind, *arguments, **settings)

    monkeypatch.setattr(Record, "append", appended)
    return cutter


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(name: str, run: str) -> int:
    what = ("tune", "study.toml", "--name", run) if name == "tune" else ("resume", f"runs/{run}")
    return main([*what, "--workers", "0", "--quiet"])


def outcome(run: str) -> tuple[Any, Any]:
    """Everything that a run leaves but for times."""
    result = json.loads(Path("runs", run, "result.json").read_text())
    del result["times"]
    rows = csv.DictReader(Path("runs", run, "history.csv").read_text().splitlines())
    return result, [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def cuts(kinds: list[str]) -> list[int]:
    """Before the first suggestion, between two, and late: so many events are in the record."""
    asks = [number for number, kind in enumerate(kinds) if kind == "decide ask"]
    between = asks[len(asks) // 2]
    return [asks[0], between, max(between + 1, len(kinds) - 3)]


def test_every_method_is_tried() -> None:
    assert {*METHODS, "proxy"} == set(SMALL)


@pytest.mark.parametrize("method", SMALL)
def test_a_cut_run_ends_like_the_uncut_one(
    method: str, folder: Path, cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "study.toml").write_text(as_toml(study_of(method)))
    assert command("tune", "whole") == 0
    assert Path("runs/whole/report.html").stat().st_size > 10_000
    # To write the page of such a run takes longer than the run.
    monkeypatch.setattr("fedhpo.report.write_report", lambda paths, page: page)
    whole, kinds = outcome("whole"), list(cutter.kinds)
    assert whole[0]["status"] == "finished"
    for number, carriers in enumerate(CARRIERS.values()):
        run = f"cut-{number}"
        for carrier, cutter.after in zip(("tune", *carriers), (*cuts(kinds), None), strict=True):
            if cutter.after is None:
                assert command(carrier, run) == 0
                continue
            with pytest.raises(Cut):
                command(carrier, run)
        assert outcome(run) == whole
    # Done, it is the same run for both.
    assert [command("resume", run), command("tune", run)] == [0, 0]
    assert outcome(run) == whole
    assert sorted(path.name for path in Path("runs").iterdir()) == ["cut-0", "cut-1", "cut-2", "whole"]

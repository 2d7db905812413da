"""NVFlare jobs verified as they are: no line of theirs is changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from job_files import write_job

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.federations.jobs.run import JobRun, Reply
from fedhpo.referee.sides import job as job_side
from fedhpo.referee.sides.opened import kind_of


@pytest.fixture
def job(tmp_path: Path, monkeypatch: Any) -> Path:
    """The job; its runs do not depend on the seed, so that one run of each kind stands for all pairs."""
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.chdir(tmp_path)
    real, seen = job_side.run_job, dict[Any, Any]()

    def once(job: Any, **options: Any) -> Any:
        key = job.path, repr({**options, "seed": 0})
        return seen[key] if key in seen else seen.setdefault(key, real(job, **options))

    monkeypatch.setattr(job_side, "run_job", once)
    return write_job(tmp_path / "steps")


def test_a_job_is_verified_without_a_changed_line(job: Path, capsys: Any) -> None:
    before = {one: one.read_bytes() for one in job.rglob("*")}
    fixed = "--metric loss --direction minimize --from training --trained --rounds 2 --json --quiet"
    code = main(["verify", str(job), f"{job} --step 1.5", *fixed.split()])
    said = json.loads(capsys.readouterr().out)
    [found] = said["verdicts"]
    assert (code, found["verdict"], found["pairs"]) == (0, "keep", 6)
    assert found["candidate"] == {"name": "steps --step 1.5", "kind": "nvflare job"}
    # Two steps of 1 from 0 towards 3 leave a loss of 1, two of 1.5 none.
    assert found["difference"]["mean"] == pytest.approx(1.0)
    assert found["tail"]["mean"] == pytest.approx(1.0)
    # Two numbers of four bytes from two sites in two rounds.
    assert found["cost"]["bytes"] == {"base": 32.0, "candidate": 32.0, "ratio": 1.0}
    assert {one: one.read_bytes() for one in job.rglob("*")} == before


def test_unequal_jobs_and_options_without_effect_are_refused(job: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"metric": "loss", "source": "training"}
    with pytest.raises(InputError, match="cohort is 2 in steps and 3 in steps --n_clients 3"):
        fh.verify(job, f"{job} --n_clients 3", **options)
    longer = write_job(tmp_path / "longer")
    (longer / "job.py").write_text((longer / "job.py").read_text().replace("num_rounds=5", "num_rounds=6"))
    with pytest.raises(InputError, match="rounds is 5 in steps and 6 in longer"):
        fh.verify(job, longer, **options)
    with pytest.raises(InputError, match="trains its 2 sites each round"):
        fh.verify(job, longer, cohort=1, **options)
    with pytest.raises(InputError, match="trained: goes with from = 'training'"):
        fh.verify(job, longer, metric="loss", trained=True)
    assert kind_of(str(job / "job.py")) == kind_of(f"{job} --step 2") == "nvflare job"


def test_the_model_received_is_told_one_round_later(job: Path, monkeypatch: Any) -> None:
    asked: list[int] = []

    def replied(job: Any, *, probe: bool = False, rounds: int = 0, **_: Any) -> JobRun:
        asked.append(rounds)
        replies = [
            Reply(site, "train", number, {"loss": 9.0 - number}, bytes=10)
            for number in range(rounds)
            for site in ("site-1", "site-2")
        ]
        return JobRun(["site-1", "site-2"], rounds, replies, own_rounds=5)

    monkeypatch.setattr(job_side, "run_job", replied)
    side = job_side.JobSide(str(job), [], fh.Objective("loss", from_="training"))
    found = side.train(0, None)
    assert asked == [0, 6]
    assert (found.score, found.rounds, found.cohort, found.bytes) == (4.0, 5, 2, 100)
    with pytest.raises(InputError, match="its sites tell loss, not 'accuracy'"):
        job_side.JobSide(str(job), [], fh.Objective(from_="training")).train(0, None)
    monkeypatch.setattr(job_side, "run_job", lambda job, **_: replied(job, rounds=4))
    with pytest.raises(InputError, match="was to train 5 rounds and trained 3"):
        side.train(0, None)

"""NVFlare jobs as they are: run whole in the simulator, with values given from outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_files import write_job

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.federations.jobs.federation import JobFederation
from fedhpo.federations.jobs.job_file import read_job
from fedhpo.federations.jobs.run import TRAINED, run_job
from fedhpo.protocol.federation import Work


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write_job(tmp_path / "above" / "steps")


def test_a_job_runs_unchanged_with_values_from_outside(job: Path) -> None:
    before = {one: one.read_bytes() for one in job.rglob("*")}
    run = run_job(job, {"step": 0.5, "target": 2.0, "client:Mover.scale": 2.0}, rounds=3, timeout=120)
    assert run.failed == ""
    assert run.sites == ["site-1", "site-2"]
    assert run.bound == {"step", "target", "client:Mover.scale"}
    # Every round moves all weights by 2 * 0.5 towards 2: after the third they are 1 beyond.
    assert run.scores("loss", "training", TRAINED) == {"site-1": 1.0, "site-2": 1.0}
    told = [one.metrics["loss"] for one in run.replies if one.site == "site-1"]
    assert told == [1.0, 0.0, 1.0]
    assert {one: one.read_bytes() for one in job.rglob("*")} == before


def test_a_probe_tells_the_sites_and_trains_nothing(job: Path) -> None:
    run = run_job(job, {"n_clients": 3}, probe=True)
    assert list(run.sites) == ["site-1", "site-2", "site-3"]
    assert not run.replies


def test_a_job_that_cannot_score_its_final_model_is_refused_with_its_reason(job: Path) -> None:
    run = run_job(job, rounds=1, final=True, timeout=120)
    assert run.failed.startswith("objective.from = 'clients': NVFlare cannot let the job's sites score")


def test_a_job_that_fails_says_its_own_error(job: Path) -> None:
    (job / "job.py").write_text("raise ValueError('no data here')\n", encoding="utf-8")
    assert run_job(job).failed == "the job ended with 1: ValueError: no data here"


def test_a_function_of_the_script_itself_is_refused(job: Path) -> None:
    with pytest.raises(InputError, match=r"client:main\.lr: main is not imported by client\.py"):
        run_job(job, {"client:main.lr": 0.1})


def test_a_path_without_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a directory with a job\.py"):
        read_job(tmp_path)


def test_a_job_is_tuned_and_its_best_config_is_the_one_that_fits(job: Path) -> None:
    objective = fh.Objective("loss", from_="training")
    with JobFederation(job, objective, scored=TRAINED) as federation:
        space = fh.Space(client={"step": fh.Choice([0.0, 1.0])})
        result = fh.tune(
            federation, space, fh.RandomSearch(trials=2), rounds=2, total=4, cohort=2, objective=objective
        )
    # From 0, two steps of 1 towards 3 leave a loss of 1; steps of 0 leave 9.
    assert result.best_config.client == {"step": 1.0}
    assert result.best_score == 1.0
    assert sorted(trial.score for trial in result.trials) == [1.0, 9.0]


def test_a_name_that_the_job_has_nowhere_is_refused(job: Path) -> None:
    objective = fh.Objective("loss", from_="training")
    with JobFederation(job, objective, scored=TRAINED) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1], {"momentum": 0.9})])
        with pytest.raises(InputError, match="momentum: the job has no such option"):
            federation.evaluate([0], federation.validation_clients)
        with pytest.raises(InputError, match="an NVFlare job trains its 2 sites in every round"):
            federation.submit(Work(0, [0], {"momentum": 0.9}))

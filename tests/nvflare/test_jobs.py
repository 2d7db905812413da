"""NVFlare jobs as they are: run whole in the simulator, with values given from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from job_files import write_job

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.federations.jobs.federation import JobFederation
from fedhpo.federations.jobs.job_file import read_job
from fedhpo.federations.jobs.run import TRAINED, run_job
from fedhpo.protocol.federation import Work
from fedhpo.study import Study


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


def test_what_lies_beside_a_job_is_found_there_and_copied_if_its_code_names_it(job: Path) -> None:
    for name in ("shared", "private"):
        (job.parent / name).mkdir()
        (job.parent / name / "tools.py").write_text("NUMBER = 3\n", encoding="utf-8")
    (job / "work.py").write_text("from shared.tools import NUMBER\n", encoding="utf-8")
    (job.parent / "elsewhere").mkdir()
    made = read_job(job).copy_to(job.parent / "elsewhere")
    assert (made.parent / "shared" / "tools.py").is_file()
    assert not (made.parent / "shared").is_symlink()
    assert (made.parent / "private").is_symlink()


def test_a_failed_run_of_a_job_is_a_failed_trial_not_a_crash(job: Path) -> None:
    (job / "client.py").write_text("raise ValueError('no rows')\n", encoding="utf-8")
    objective = fh.Objective("loss", from_="training")
    with JobFederation(job, objective, scored=TRAINED) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1], {"step": 1.0})])
        [scores] = federation.evaluate([0], federation.validation_clients)
    assert federation.client_names[int(federation.validation_clients[0])] == "all sites"
    assert "no rows" in str(scores.reasons[0])


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


def test_settings_of_a_job_that_have_no_effect_are_refused(job: Path) -> None:
    exported = job.parent / "exported"
    exported.mkdir()
    (exported / "meta.json").write_text("{}", encoding="utf-8")
    tables: dict[str, Any] = {
        "job": {"path": str(job)},
        "space": {"client": {"step": {"choices": [0.5, 1.0]}}},
        "objective": {"metric": "loss", "direction": "minimize", "from": "training"},
        "budget": {"rounds": 1, "total": 2},
        "method": {"name": "random"},
    }
    for section, why in (
        ({"path": str(job), "clients": 3}, r"job\.clients = 3: has no effect, as job\.py says"),
        ({"path": str(job), "arguments": ["--step=2"]}, r"job\.arguments: has --step, which \[space\] sets"),
        ({"path": str(exported)}, r"job\.clients is missing"),
        (
            {"path": str(exported), "clients": 2, "arguments": ["--step", "2"]},
            r"job\.arguments = \['--step', '2'\]: has no effect, as an exported job has no script",
        ),
    ):
        with pytest.raises(InputError, match=why):
            Study.from_dict({**tables, "job": section})
    with pytest.raises(InputError, match=r"at_zero = \['step'\]: is for Flower apps"):
        JobFederation(job, fh.Objective("loss", from_="training", at_zero=["step"]))


def test_further_metrics_of_a_job_are_told_and_a_rule_for_one_score_is_refused(job: Path) -> None:
    client = (job / "client.py").read_text(encoding="utf-8")
    told = client.replace('{"loss": loss}', '{"loss": loss, "distance": loss**0.5}')
    (job / "client.py").write_text(told, encoding="utf-8")
    objective = fh.Objective("loss", from_="training", also=["distance", "speed"])
    space = fh.Space(client={"step": fh.Choice([0.5, 1.0])})
    with JobFederation(job, objective, scored=TRAINED) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1], {"step": 1.0})])
        with pytest.warns(UserWarning, match="sites have no speed; they tell distance, loss"):
            [scores] = federation.evaluate([0], federation.validation_clients)
        # A step of 1 from 0 leaves a distance of 2 to 3.
        assert scores.metrics["distance"].tolist() == [2.0]
        assert scores.metrics["loss"].tolist() == [4.0]
        with pytest.raises(
            InputError, match=r"evaluation\.choice = 'mean': has no effect with objective\.from"
        ):
            fh.tune(
                federation, space, fh.RandomSearch(trials=2), rounds=1, total=2, cohort=2,
                objective=objective, evaluation=fh.Evaluator(choice="mean"),
            )  # fmt: skip


def test_a_name_that_the_job_has_nowhere_is_refused(job: Path) -> None:
    objective = fh.Objective("loss", from_="training")
    with JobFederation(job, objective, scored=TRAINED) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1], {"momentum": 0.9})])
        with pytest.raises(InputError, match=r"space\.client: momentum: the job has no such option"):
            federation.evaluate([0], federation.validation_clients)
        with pytest.raises(InputError, match="an NVFlare job trains its 2 sites in every round"):
            federation.submit(Work(0, [0], {"momentum": 0.9}))


def test_inspection_lists_options_and_arguments_and_writes_a_study_that_runs(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = (job / "client.py").read_text(encoding="utf-8")
    (job / "client.py").write_text(
        client.replace("from work import Mover", "from work import Mover\nfrom work import SGD").replace(
            "flare.init()", "flare.init()\n    rate = 0.25\n    SGD(lr=rate, momentum=0.9)"
        ),
        encoding="utf-8",
    )
    with (job / "work.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef SGD(lr, momentum):\n    return lr\n")
    study = tmp_path / "study.toml"
    assert main(["nvflare", "inspect", str(job), str(study), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {one["name"]: one["value"] for one in told["tunables"]}
    assert found == {"step": 1.0, "target": 3.0, "client:SGD.lr": 0.25, "client:SGD.momentum": 0.9}
    assert told["metrics"] == {"training": ["loss"]}
    given = Study.load(study)  # as it was written, it is a study
    assert given.file.budget.rounds == 5
    assert given.space.default().client["client:SGD.lr"] == 0.25
    assert main(["nvflare", "inspect", str(job), str(study)]) == 2  # it is there already


def test_a_job_is_tuned_from_a_study_file(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        '[job]\npath = "elsewhere"\nscored = "trained"\n[space.client]\nstep = { choices = [0.0, 1.0] }\n'
        '[objective]\nmetric = "loss"\nfrom = "training"\n[method]\nname = "grid"\n[budget]\nrounds = 2\n'
        "total = 4\n",
        encoding="utf-8",
    )
    runs = tmp_path / "runs"
    assert main(["nvflare", "tune", str(job), str(study), "--runs", str(runs), "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["config"]["client"] == {"step": 1.0}
    assert told["best"]["validation"]["value"] == 1.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data": {"name": "digits"}}, r"data: leave it out where \[job\] names an NVFlare job"),
        ({"objective": {"from": "training"}}, r"objective\.metric is missing"),
        ({"space": {"client": {"client:main.lr": {"low": 0.1, "high": 1.0}}}}, "main is not imported"),
        ({"space": {"client": {}}}, "space has nothing to tune"),
        ({"server": {"optimiser": "fedadam"}}, r"server\.optimiser"),
        ({"nvflare": {"deadline": 3.0}}, r"nvflare\.deadline"),
        ({"objective": {"metric": "loss"}, "job": {"scored": "trained"}}, r"job\.scored = 'trained'"),
    ],
)
def test_a_study_of_a_job_refuses_what_has_no_effect(job: Path, changes: dict[str, Any], why: str) -> None:
    tables: dict[str, Any] = {
        "job": {"path": str(job)},
        "space": {"client": {"step": {"choices": [0.0, 1.0]}}},
        "objective": {"metric": "loss", "from": "training"},
        "budget": {"rounds": 2},
    }
    tables |= {key: {**tables[key], **value} if key == "job" else value for key, value in changes.items()}
    with pytest.raises(InputError, match=why):
        Study.from_dict(tables).check_place("nvflare")

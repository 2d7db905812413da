"""Six trainees at five places: the study of each, and what a run of it came to."""

import contextlib
import tempfile
import warnings
from pathlib import Path

import golden_cells
from golden_digests import short, text

import fedhpo as fh

GOLDEN = Path(golden_cells.__file__).parent
PLACES = ("process", "workers", "ray", "flower", "nvflare")
CLIENTS, COHORTS = 48, (3, 40)

_LR = {"low": 0.01, "high": 1.0, "log": True}
_RATE = {"low": 0.01, "high": 0.1}
_MEAN = {"aggregation": "mean", "weight_cap": 100.0}
_ARRAYS = {
    "data": {"name": "matrix_world:clients"},
    "server": _MEAN,
    "objective": {"metric": "loss"},
    "budget": {"rounds": 2, "total": 4},
}
_LEARNERS = {"data": {"name": "matrix_world:parties"}, "budget": {"rounds": 1, "total": 2}}
TRAINEES = {
    # With dropout nothing is stacked, as real clients are not: stacks are bits of their own.
    "torch": _ARRAYS
    | {
        "model": {"name": "mlp", "hidden": 8},
        "space": {"client": {"lr": _LR, "batch_size": 4, "dropout": 0.2}},
    },
    "own function": _ARRAYS
    | {
        "model": {"name": "mlp", "hidden": 8},
        "client": {"train": "golden_world:by_sign", "hyperparameters": ["pace", "steps"]},
        "space": {"client": {"pace": {"low": 0.001, "high": 0.1, "log": True}, "steps": 2}},
    },
    "trees by bagging": _LEARNERS
    | {
        "model": {"name": "xgboost", "training": "bagging", "trips": 2},
        "server": {"weight_cap": 100.0},
        "space": {"client": {"max_iter": {"low": 2, "high": 5}, "min_samples_leaf": 2}},
    },
    "estimators by averaging": _LEARNERS
    | {
        "model": {"name": "mlp_sklearn", "training": "averaging"},
        "server": _MEAN,
        "space": {
            "client": {
                "hidden_layer_sizes": 3,
                "learning_rate_init": {"low": 0.01, "high": 0.1},
                "max_iter": 2,
            }
        },
    },
    "flower app": {
        "app": {"path": str(GOLDEN / "app"), "clients": CLIENTS},
        "space": {"client": {"learning-rate": _LR, "params": {"decay": {"low": 0.0, "high": 0.5}}}},
        "objective": {"metric": "eval_loss", "direction": "minimize"},
        "budget": {"rounds": 2, "total": 4},
    },
    "nvflare script": _ARRAYS
    | {
        "model": {
            "name": "fedhpo.nvflare:Script",
            "path": str(GOLDEN / "golden_script.py"),
            "network": "golden_world:Network",
        },
        "space": {"client": {"lr": {**_LR, "default": 0.05}, "epochs": {"choices": [1, 2], "default": 1}}},
        "objective": {"metric": "accuracy"},
    },
}
#: Cells that are refused, and what their reason says.
REFUSED = {("flower app", "nvflare"): "[app] names a Flower app"}


def study_of(trainee, place, cohort):
    """The study of a cell. Choices and defaults that differ where clients are real are written out."""
    given = TRAINEES[trainee]
    budget = {**given["budget"], "cohort": cohort}
    where = {place: {"clients": CLIENTS}} if place == "nvflare" else {}
    if place == "flower" and trainee != "flower app":
        where = {"flower": {"clients": CLIENTS}}
    method = {"name": "random", "trials": 2}
    evaluation = {"choice": "mean"}
    return fh.Study.from_dict(
        {"seed": 3, **given, "budget": budget, "method": method, "evaluation": evaluation, **where}
    )


@contextlib.contextmanager
def opened(trainee, place, cohort):
    """The federation of a cell and its study, by the doors that users have."""
    study = study_of(trainee, place, cohort)
    with warnings.catch_warnings():  # NVFlare, once imported, makes errors of what others deprecate
        warnings.simplefilter("ignore")
        if place == "flower" and trainee == "flower app":
            made = _app_behind_a_grid(study)
        elif place == "flower":
            made = golden_cells.over_flower(study, CLIENTS)
        elif place == "nvflare":
            made = golden_cells.over_nvflare(study, CLIENTS)
        else:
            options = {"process": {"workers": 0}, "workers": {"workers": 2}, "ray": {"ray": "auto"}}
            made = study.federation(**options[place])
    with made as federation:
        yield study, federation


def _app_behind_a_grid(study):
    from fedhpo.federations.apps.app_file import read_app
    from fedhpo.federations.apps.loaded import load_client, load_server
    from fedhpo.flower import InProcessGrid, wrap
    from fedhpo.flower.server_app import app_federation

    app = read_app(study.file.app.path)
    grid = InProcessGrid(wrap(load_client(app)), CLIENTS, app.config, seed=0)
    options = {"clients": CLIENTS, "repeatable": True}
    return app_federation(grid, load_server(app), study, app.config, None, **options)


def outcome_of(trainee, place, cohort):
    """Of a run at a place: a digest of every trial's model and rounds at its end, and the trials' scores.

    Scores stand apart: a simulation scores torch models at many clients with one product of matrices, which
    rounds otherwise than one for each client. Models are the same bits.
    """
    arrays = {}
    with opened(trainee, place, cohort) as (study, federation):
        stop = federation.stop

        def watched(trial):
            with contextlib.suppress(Exception):
                arrays[trial] = federation.state(trial).arrays
            stop(trial)

        federation.stop = watched
        with tempfile.TemporaryDirectory(prefix="matrix-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = study.tune(Path(folder) / "run", federation=federation)
        for trial in list(federation.trials):
            federation.stop(trial)
    assert result.status == "finished"
    rounds = [(row["trial"], row["rounds"]) for row in result.facts["trials"]]
    scores = [row["score"] for row in result.facts["trials"]]
    assert all(score is not None and score == score for score in scores)
    models = [
        part
        for trial in sorted(arrays)
        for name in sorted(arrays[trial])
        for part in (f"{trial} {name}".encode(), arrays[trial][name].tobytes())
    ]
    assert models
    return short(text(rounds), *models), scores

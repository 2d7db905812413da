"""Every combination of trainee, place and method whose results are kept as digests.

A cell is one small study. `run_cells` makes its digests with any version of fedhpo from 0.2.0 on, so only
names that all of these have may be used here.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden_digests import digests_of, state_digest

HERE = Path(__file__).parent
#: Clients of a study of torch models, nodes of the app, sites of the script, parties of learners.
CLIENTS, NODES, SITES, PARTIES = 8, 6, 2, 3


@dataclass(frozen=True)
class Trainee:
    """What is trained: a study without its method, the places where it runs today, and five methods."""

    study: Mapping[str, Any]
    places: tuple[str, ...]
    methods: Mapping[str, Mapping[str, Any]]
    clients: int = CLIENTS

    def given(self, method: str, place: str) -> dict[str, Any]:
        """The tables of the study with this method, and how many clients are waited for."""
        where = {place: {"clients": self.clients}} if place in ("flower", "nvflare") else {}
        return {"seed": 3, **self.study, "method": {"name": method, **self.methods[method]}, **where}


EVERYWHERE = ("process", "workers", "ray", "flower", "nvflare")
_FLORA = {"configs": 3, "surface": "sgm", "diagnose": False}
_ROUNDS: dict[str, Mapping[str, Any]] = {
    "random": {"trials": 3},
    "sha": {"trials": 4},
    "fedex": {"trials": 2},
    "fedpop": {"population": 3},
    "flora": {**_FLORA, "local_rounds": 1},
}
#: Apps and scripts answer no queries, so that FLoRA cannot ask their parties: BOHB in its place.
_NO_QUERY = {**{name: _ROUNDS[name] for name in ("random", "sha", "fedex", "fedpop")}, "bohb": {}}
#: A learner is trained whole in one round, under one config: nothing to halve, to share or to fork.
_WHOLE: dict[str, Mapping[str, Any]] = {
    "random": {"trials": 3},
    "grid": {"points": 2},
    "tpe": {"trials": 4},
    "gp": {"trials": 4},
    "flora": {**_FLORA, "folds": 2},
}
_BUDGET = {"rounds": 4, "total": 12, "cohort": 3}
_LR = {"low": 0.01, "high": 1.0, "log": True}
_TORCH: dict[str, Any] = {
    "data": {"name": "golden_world:clients"},
    "model": {"name": "mlp", "hidden": 8},
    # The same rule everywhere: over Flower and NVFlare another is the default.
    "server": {"aggregation": "mean", "weight_cap": 100.0},
    "space": {
        "client": {"lr": _LR, "batch_size": {"choices": [4, 8]}, "dropout": {"low": 0.0, "high": 0.4}},
        "server": {"lr": {"low": 0.5, "high": 2.0, "log": True}},
    },
    "objective": {"metric": "loss"},
    "budget": _BUDGET,
}
_OWN = {
    **_TORCH,
    "client": {"train": "golden_world:by_sign", "hyperparameters": ["pace", "steps"]},
    "space": {
        "client": {"pace": {"low": 0.001, "high": 0.1, "log": True}, "steps": {"low": 1, "high": 3}},
        "server": {"lr": {"low": 0.5, "high": 2.0, "log": True}},
    },
}
_TREES = {
    "max_iter": {"low": 3, "high": 8},
    "learning_rate": {"low": 0.05, "high": 1.0, "log": True},
    "min_samples_leaf": 2,
}
_LEARNERS: dict[str, Any] = {
    "data": {"name": "golden_world:parties"},
    "space": {"client": _TREES},
    "budget": {"rounds": 1, "total": 4, "cohort": PARTIES},
}
_APP = {
    "app": {"path": str(HERE / "app"), "clients": NODES},
    "space": {
        "client": {"learning-rate": _LR, "params": {"decay": {"low": 0.0, "high": 0.5}}},
        "server": {"server_momentum": {"choices": [0.0, 0.5]}},
    },
    "objective": {"metric": "eval_loss", "direction": "minimize"},
    "budget": _BUDGET,
}
_SCRIPT = {
    "data": {"name": "golden_world:clients"},  # not looked at: the script brings its own
    "model": {"name": "golden_world:Network"},
    "client": {"open": True},
    "server": {"aggregation": "mean", "weight_cap": 100.0},
    "space": {"client": {"lr": {**_LR, "default": 0.05}, "epochs": {"choices": [1, 2], "default": 1}}},
    "objective": {"metric": "accuracy"},
    "budget": {**_BUDGET, "cohort": SITES},
}
_WIDE = {**_TORCH, "data": {"name": "golden_world:many_clients"}, "budget": {**_BUDGET, "cohort": 40}}
_TWO = {name: _ROUNDS[name] for name in ("random", "fedex")}

TRAINEES: dict[str, Trainee] = {
    "torch": Trainee(_TORCH, EVERYWHERE, _ROUNDS),
    "own function": Trainee(_OWN, EVERYWHERE, _ROUNDS),
    "trees by bagging": Trainee(
        {**_LEARNERS, "model": {"name": "xgboost", "training": "bagging", "trips": 2}},
        ("process", "workers", "flower", "nvflare"),
        _WHOLE,
        PARTIES,
    ),
    "estimators by averaging": Trainee(
        {
            **_LEARNERS,
            "model": {"name": "mlp_sklearn"},
            "space": {
                "client": {
                    "hidden_layer_sizes": {"low": 2, "high": 6},
                    "learning_rate_init": {"low": 0.01, "high": 0.1, "log": True},
                    "max_iter": 5,
                }
            },
        },
        ("flower", "nvflare"),
        _WHOLE,
        PARTIES,
    ),
    "flower app": Trainee(_APP, ("process", "flower"), _NO_QUERY, NODES),
    "nvflare script": Trainee(_SCRIPT, ("nvflare",), _NO_QUERY, SITES),
    "learners pooled": Trainee(
        {**_LEARNERS, "model": {"name": "hgb"}}, ("process", "workers"), _WHOLE, PARTIES
    ),
    "trees by collective": Trainee(
        {
            **_LEARNERS,
            "model": {"name": "xgboost", "training": "collective"},
            "budget": {**_LEARNERS["budget"], "total": 2},
        },
        ("process",),
        {**_WHOLE, "random": {"trials": 2}, "tpe": {"trials": 2}, "gp": {"trials": 2}},
        PARTIES,
    ),
    # Beside the 18: paths of the engine, and defaults, that the cells above do not take.
    "torch unstacked": Trainee(_TORCH, ("process unstacked", "workers unstacked", "flower", "nvflare"), _TWO),
    "torch, cohort of 40": Trainee(_WIDE, ("process unstacked", "workers", "flower"), _TWO, 48),
    "torch by default": Trainee(
        {key: table for key, table in _TORCH.items() if key != "server"}, ("flower", "nvflare"), _TWO
    ),
}


#: Cells that start processes, which takes longer than the studies; and those that need a cluster of Ray's.
GROUPS = ("quick", "processes", "ray")


def group_of(trainee: str, place: str) -> str:
    """Which group a cell belongs to."""
    if place == "ray":
        return "ray"
    slow = place.startswith("workers") or trainee == "trees by collective"
    return "processes" if slow else "quick"


def cells() -> list[tuple[str, str, str]]:
    """Trainee, place and method of every cell."""
    return [
        (name, place, method)
        for name, trainee in TRAINEES.items()
        for place in trainee.places
        for method in trainee.methods
    ]


def run_cells(trainee: str, place: str, methods: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The digests of each method's cell at one place, each from a run in a directory of its own.

    Where processes are started, the methods share a federation: to start them takes longer than the study.
    """
    import fedhpo as fh

    what = TRAINEES[trainee]
    studies = {method: fh.Study.from_dict(what.given(method, place)) for method in methods}
    together = [list(studies)] if place in ("workers", "ray") else [[method] for method in studies]
    for named in together:
        with opened(studies[named[0]], place, what, trainee) as federation:
            states = watch_states(federation)
            for method in named:
                yield method, run_cell(studies[method], federation, states)


def run_cell(study: Any, federation: Any, states: dict[int, str]) -> dict[str, str]:
    """Tune the study, and give the digests of its run."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states.clear()
        result = study.tune(Path(folder) / "run", federation=federation)
        for trial in list(federation.trials):
            federation.stop(trial)
        return digests_of(Path(folder) / "run", result, states)


def watch_states(federation: Any) -> dict[int, str]:
    """The digest of each trial's state when it is stopped, as they are."""
    states: dict[int, str] = {}
    stop = federation.stop

    def watched(trial: int) -> None:
        # A trial may be stopped while its round is under way: then it has no state of its own.
        with contextlib.suppress(Exception):
            states[trial] = state_digest(federation.state(trial))
        stop(trial)

    federation.stop = watched
    return states


@contextlib.contextmanager
def opened(study: Any, place: str, what: Trainee, trainee: str) -> Iterator[Any]:
    """The federation of a study at a place."""
    with warnings.catch_warnings():  # NVFlare, once imported, makes errors of what others deprecate
        warnings.simplefilter("ignore")
        made = made_at(study, place, what, trainee)
    with made as federation:
        yield federation


def made_at(study: Any, place: str, what: Trainee, trainee: str) -> Any:
    if trainee == "flower app" and place == "flower":
        return app_behind_a_grid(study)
    if place == "flower":
        return over_flower(study, what.clients)
    if place == "nvflare":
        return over_nvflare(study, what.clients, script=trainee == "nvflare script")
    if place.endswith("unstacked"):
        return unstacked(study, 0 if place.startswith("process") else 2)
    options: dict[str, Any] = {"process": {"workers": 0}, "workers": {"workers": 2}, "ray": {"ray": "auto"}}
    return study.federation(**options[place])


def unstacked(study: Any, workers: int) -> Any:
    """A simulation whose trainings are not stacked, as those of real clients are not."""
    import fedhpo as fh

    fixed = {"model": "mlp", "weight_cap": study.file.server.weight_cap}
    return fh.simulate(data=study.load_data(), workers=workers, stacking=False, **fixed)


def over_flower(study: Any, clients: int, directory: Path | None = None) -> Any:
    """Clients behind a Flower grid in this process, whose ids are drawn from a seed."""
    from flwr.clientapp import ClientApp

    from fedhpo.flower import InProcessGrid, client
    from fedhpo.flower.server_app import federation_of

    grid = InProcessGrid(client(ClientApp(), study=study), clients, seed=0)
    return federation_of(grid, study, directory, repeatable=True)


def app_behind_a_grid(study: Any, directory: Path | None = None) -> Any:
    """The wrapped app's clients behind a Flower grid, as a `ServerApp` of fedhpo's meets them."""
    from fedhpo.federations.apps.app_file import read_app
    from fedhpo.federations.apps.loaded import load_client, load_server
    from fedhpo.flower import InProcessGrid, wrap
    from fedhpo.flower.server_app import app_federation

    app = read_app(study.file.app.path)
    grid = InProcessGrid(wrap(load_client(app)), NODES, app.config, seed=0)
    return app_federation(grid, load_server(app), study, app.config, directory, repeatable=True)


class Site:
    """A client in this process behind what looks like a proxy of NVFlare's Collab API."""

    def __init__(self, name: str, client: Any) -> None:
        self.name, self.client = name, client

    def __call__(self, *, timeout: float) -> Site:
        return self

    def answer(self, kind: str, text: str, models: Any) -> Any:
        return self.client.reply(self.name, kind, text, models)


def over_nvflare(study: Any, clients: int, directory: Path | None = None, *, script: bool = False) -> Any:
    """Sites in this process: all of fedhpo's side of a job, none of NVFlare's transport."""
    from fedhpo.nvflare import Client, ScriptClient
    from fedhpo.nvflare.server import federation_of

    def client() -> Any:
        return ScriptClient(str(HERE / "golden_script.py")) if script else Client(study.given)

    sites = [Site(f"site-{number + 1}", client()) for number in range(clients)]
    return federation_of(sites, study, directory, repeatable=True)

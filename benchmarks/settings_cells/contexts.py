"""The small studies in which keys are set, and how each is run."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedhpo.learners import LEARNERS
from fedhpo.methods.registry import METHODS
from fedhpo.run.record import Record
from fedhpo.run.run import RECORD
from fedhpo.study import Study

Tables = Mapping[str, Any]
CLIENTS = 6
#: Clients of unlike sizes, so that weights matter.
DATA = {"name": "synthetic", "clients": CLIENTS, "samples": [20, 150], "dimension": 5, "classes": 3}
TORCH: Tables = {
    "seed": 1,
    "data": DATA,
    "model": {"name": "mlp", "hidden": [4]},
    "space": {
        "client": {"lr": {"low": 0.01, "high": 1.0, "log": True}, "momentum": {"low": 0.0, "high": 0.9}}
    },
    "budget": {"rounds": 3, "total": 9, "cohort": 3},
    "method": {"name": "random"},
}
LEARNER: Tables = {
    "seed": 1,
    "data": DATA,
    "space": {},
    "budget": {"rounds": 1, "total": 3, "cohort": 3},
    "method": {"name": "random"},
}
_PROXY = {"data": {**DATA, "seed": 7}}
#: Of each method, what makes it small.
SMALL: Mapping[str, Tables] = {
    "grid": {"points": 2, "trials": 3},
    "sha": {"trials": 4, "finalists": 2},
    "fedex": {"trials": 4, "arms": 4, "rate": 2},
    "fedpop": {"population": 3, "interval": 1},
    "fedpop-auto": {"trials": 4, "rate": 2},
    "fedpop-authors-code": {"population": 4, "interval": 0.25},
    "fedhyper": {"trials": 4},
    "fts": {"trials": 3, "configs": 3, "features": 8},
    "flora": {"configs": 4, "folds": 2, "diagnose": False},
    "fedtune": {"indices": [0.3, 0.7], "quantities": [20], "clients": 2, "length": 1, "steps": 2},
    "tpe": {"trials": 4, "startup": 2},
    "gp": {"trials": 4, "startup": 2},
}


@dataclass(frozen=True)
class Context:
    """A study that keys are set in, and what runs it: it returns the result's facts."""

    name: str
    tables: Tables
    run: Callable[[Study, Path], Mapping[str, Any]]


def simulated(study: Study, path: Path, ray: str | None = None) -> Mapping[str, Any]:
    """In this process, or on a Ray cluster."""
    return study.tune(path, workers=None if ray else 0, ray=ray).facts


def tabular(study: Study, path: Path) -> Mapping[str, Any]:
    """On a made-up table."""
    from fedhpo.research.tables.federation import TabularFederation

    return study.tune(path, federation=TabularFederation(_table())).facts


def flower(study: Study, path: Path) -> Mapping[str, Any]:
    """Over Flower, with all nodes in this process."""
    from flwr.clientapp import ClientApp

    from fedhpo.flower import InProcessGrid, client
    from fedhpo.flower.server_app import federation_of

    grid = InProcessGrid(client(ClientApp(), study=study), CLIENTS, seed=3)
    with federation_of(grid, study, path, repeatable=True) as federation:
        return study.tune(path, federation=federation).facts


@cache
def _table() -> Any:
    from fedhpo.testing.table import toy_table

    return toy_table(configs=12, rounds=9, clients=8)  # as many as a trimmed choice needs


def _on_table(method: Tables) -> Tables:
    tables = dict(_table().study_tables)
    return {**tables, "seed": 1, "budget": {"rounds": 9, "total": 54, "cohort": 4}, "method": method}


def _method(name: str) -> Tables:
    return {"name": name, **SMALL.get(name, {})}


def _with_method(name: str) -> Tables:
    tables = {**TORCH, "method": _method(name), "budget": {"rounds": 4, "total": 24, "cohort": 3}}
    if name in ("fedtune",):
        tables |= {"proxy": _PROXY, "budget": {"rounds": 4, "cohort": 3}}
    return tables


def runtimes() -> Iterator[Context]:
    """Where a study runs: every general key is set in each."""
    yield Context("simulated", TORCH, simulated)
    yield Context("learners", {**LEARNER, "model": {"name": "svm"}}, simulated)
    yield Context("table", _on_table({"name": "random", "trials": 3}), tabular)
    yield Context("flower", TORCH, flower)
    for name in ("svm", "mlp_sklearn", "xgboost"):
        yield Context(f"flower, {name}", {**LEARNER, "model": {"name": name}}, flower)
    proxy = {key: value for key, value in TORCH.items() if key != "method"}
    yield Context("proxy", {**proxy, "proxy": _PROXY, "budget": {"rounds": 2, "cohort": 3}}, simulated)


def methods() -> Iterator[Context]:
    """Every method, in a simulation."""
    for name in METHODS:
        yield Context(f"method {name}", _with_method(name), simulated)


def methods_elsewhere() -> Iterator[tuple[str, Context]]:
    """Every method on a table and over Flower, for its own keys; with its name."""
    for name in METHODS:
        yield name, Context(f"method {name} on a table", _on_table(_method(name)), tabular)
        yield name, Context(f"method {name} over flower", _with_method(name), flower)
        learner = {**LEARNER, "model": {"name": "svm"}, "method": _method(name)}
        yield name, Context(f"method {name} with svm", learner, simulated)


def learners() -> Iterator[Context]:
    """Every learner that is installed, in a simulation."""
    for name in LEARNERS:
        yield Context(f"learner {name}", {**LEARNER, "model": {"name": name}}, simulated)
    bagging = {"name": "xgboost", "training": "bagging"}
    yield Context("learner xgboost, bagging", {**LEARNER, "model": bagging}, simulated)
    own = {"name": "estimator", "path": "sklearn.naive_bayes:GaussianNB"}
    space = {"client": {"var_smoothing": {"low": 1e-9, "high": 1.0, "log": True}}}
    yield Context("learner estimator", {**LEARNER, "model": own, "space": space}, simulated)


def tuners(part: str, name: str) -> Context:
    """A tuner that is put together, with this part."""
    usual: dict[str, Any] = {"schedule": {"name": "halving", "trials": 4}}
    made = {**usual, part: {"name": name}}
    if (part, name) == ("schedule", "halving"):
        made = usual
    elif part == "sampler":
        made["schedule"] = {"name": "fixed", "trials": 5, "side_by_side": 1}
    return Context(f"{part} {name}", {**TORCH, "method": {"name": "tuner", **made}}, simulated)


def on_ray() -> Context:
    """On a Ray cluster of this machine."""
    return Context("ray", TORCH, partial(simulated, ray="auto"))


def outcome(context: Context, tables: Tables) -> tuple[str, str]:
    """The digest of what was asked of the federation and of the result; and what the run said of it."""
    with (
        tempfile.TemporaryDirectory(prefix="fedhpo-settings-") as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        Path("devices.csv").write_text(
            "client,speed\n" + "".join(f"{client},{10 + client}\n" for client in range(CLIENTS))
        )
        run = Path(folder) / "run"
        facts = context.run(Study.from_dict(tables), run)
        return digest(run, facts), " ".join(facts.get("said", ()))


#: What a result says of trials and of what they cost; the rest repeats settings.
_SEEN = ("best", "trials", "pareto", "personal", "gain", "cost", "tried", "policies", "failures")


def digest(run: Path, facts: Mapping[str, Any]) -> str:
    """All calls to the federation with their answers, and the result without what repeats settings."""
    found = hashlib.sha256()
    record = Record(run / RECORD, read_only=True)
    try:
        for event in record.events():
            if not event.kind.startswith("decide"):
                for part in (event.kind.encode(), event.call, event.result or b"", repr(event.cost).encode()):
                    found.update(part)
    finally:
        record.close()
    cost = {key: value for key, value in facts["cost"].items() if key not in ("budget", "unspent_rounds")}
    seen = {name: facts.get(name) for name in _SEEN} | {"cost": cost}
    found.update(json.dumps(seen, sort_keys=True, default=str).encode())
    return found.hexdigest()


def code_digest() -> str:
    """That of the library's code and of these cells: cells that were done with it need not be done again."""
    found = hashlib.sha256()
    import fedhpo

    for root in (Path(fedhpo.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            if os.path.basename(path.parent) != "reproduce":
                found.update(path.read_bytes())
    return found.hexdigest()[:16]

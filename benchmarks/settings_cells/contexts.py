"""The small studies in which keys are set, and what is seen of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fedhpo.core.errors import MissingExtraError
from fedhpo.learners import LEARNERS
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.methods.registry import METHODS
from fedhpo.run.record import Record
from fedhpo.run.run import RECORD
from fedhpo.search.evaluator import Evaluator
from fedhpo.space import Space
from fedhpo.study import Study
from settings_cells.places import (
    APP,
    CLIENTS,
    Seen,
    exported_job,
    flower,
    flower_app,
    job,
    nvflare_job,
    on_ray,
    plain_app,
    simulated,
    table,
    tabular,
)

Tables = Mapping[str, Any]
#: Clients of unlike sizes, so that weights matter.
DATA = {"name": "synthetic", "clients": CLIENTS, "samples": [20, 150], "dimension": 5, "classes": 3}
TORCH: Tables = {
    "seed": 1,
    "data": DATA,
    "model": {"name": "mlp"},
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
_TREES = {"client": {"max_iter": {"low": 2, "high": 5}, "learning_rate": {"low": 0.1, "high": 1.0}}}
#: Spaces in place of those that learners have of their own, whose trainings take longer.
QUICK: Mapping[str, Tables] = {
    "xgboost": _TREES,
    "hgb": _TREES,
    "lightgbm": {
        "client": {"n_estimators": {"low": 2, "high": 5}, "learning_rate": {"low": 0.1, "high": 1.0}}
    },
    "catboost": {"client": {"iterations": {"low": 2, "high": 5}, "learning_rate": {"low": 0.1, "high": 1.0}}},
    "mlp_sklearn": {
        "client": {
            "hidden_layer_sizes": {"low": 2, "high": 6},
            "max_iter": 10,
            "learning_rate_init": 0.1,
        }
    },
}
FLOWER_APP: Tables = {
    "seed": 1,
    "app": {"path": str(APP), "clients": CLIENTS},
    "space": {"client": {"learning-rate": {"low": 0.01, "high": 1.0, "log": True}}},
    "objective": {"metric": "eval_loss", "direction": "minimize"},
    "budget": {"rounds": 3, "total": 9, "cohort": 3},
    "method": {"name": "random"},
}
#: Names of the files of `write_files`.
TABLE, OTHER_TABLE, PROPOSALS, OTHER_PROPOSALS = "table.json", "other.json", "mine.jsonl", "yours.jsonl"
_PROXY = {"data": {**DATA, "seed": 7}}
#: Of each method, what makes it small.
SMALL: Mapping[str, Tables] = {
    "grid": {"points": 2, "trials": 3},
    "sha": {"trials": 9, "finalists": 1},
    "fedex": {"trials": 6, "rate": 2},
    "fedex-auto": {"trials": 9, "arms": 6},
    "fedpop": {"population": 6, "interval": 1},
    "fedpop-auto": {"trials": 9},
    "fedpop-authors-code": {"population": 4, "interval": 0.25},
    "fedhyper": {"trials": 9},
    "fts": {"trials": 6, "configs": 4, "features": 8},
    "flora": {"configs": 6, "folds": 2, "diagnose": False},
    "fedtune": {"indices": [0.3, 0.7], "quantities": [20, 60], "clients": 3, "length": 3, "steps": 6},
    "fedtune-auto": {
        "indices": [0.3, 0.7],
        "quantities": [20, 60],
        "clients": 4,
        "cohort": 2,
        "length": 3,
        "steps": 6,
    },
    "tpe": {"trials": 4, "startup": 2},
    "gp": {"trials": 4, "startup": 2},
}


@dataclass(frozen=True)
class Context:
    """A study that keys are set in, and what runs it."""

    name: str
    tables: Tables
    run: Callable[[Study, Path], Seen]


def _on_table(method: Tables) -> dict[str, Any]:
    tables = dict(table().study_tables)
    return _once({**tables, "seed": 1, "budget": {"rounds": 9, "total": 54, "cohort": 4}, "method": method})


def _once(tables: Tables) -> Tables:
    """The study without a total, where its method trains once."""
    if not METHODS[tables["method"]["name"]].trains_once:
        return tables
    return {**tables, "budget": {key: n for key, n in tables["budget"].items() if key != "total"}}


def _method(name: str) -> Tables:
    return {"name": name, **SMALL.get(name, {})}


def _with_method(name: str) -> Tables:
    tables = {**TORCH, "method": _method(name), "budget": {"rounds": 6, "total": 54, "cohort": 6}}
    if name in ("fedtune", "fedtune-auto"):
        tables |= {"proxy": _PROXY, "budget": {"rounds": 6, "cohort": 3}}
    return _once(tables)


#: Methods that need what a federation of tables, or of learners in a simulation, does not have.
_BY_ROUNDS = (
    "fedex",
    "fedex-auto",
    "fedpop",
    "fedpop-auto",
    "fedpop-authors-code",
    "fedtune",
    "fedtune-auto",
    "fedhyper",
)
NOT_THERE = {"on a table": (*_BY_ROUNDS, "flora", "fts"), "with svm": (*_BY_ROUNDS, "sha")}


def runtimes() -> Iterator[Context]:
    """Where a study runs: every general key is set in each."""
    yield Context("simulated", TORCH, simulated)
    yield Context("learners", {**LEARNER, "model": {"name": "svm"}}, simulated)
    yield Context("table", _on_table({"name": "random", "trials": 3}), tabular)
    yield Context("flower", TORCH, flower)
    all_of_them = {**LEARNER["budget"], "cohort": CLIENTS}  # who did not train has nothing to score
    yield Context("flower, svm", {**LEARNER, "model": {"name": "svm"}, "budget": all_of_them}, flower)
    for name in ("xgboost", "mlp_sklearn"):
        yield Context(f"flower, {name}", {**LEARNER, "model": {"name": name}, "space": QUICK[name]}, flower)
    proxy = {key: value for key, value in TORCH.items() if key != "method"}
    yield Context("proxy", {**proxy, "proxy": _PROXY, "budget": {"rounds": 2, "cohort": 3}}, simulated)
    yield Context("no method", {**proxy, "budget": {"rounds": 6, "cohort": 3}}, simulated)
    yield Context("flower app", FLOWER_APP, flower_app)


def scored_by_training() -> Context:
    """An app whose scores are what training returns."""
    objective = {"metric": "train_loss", "direction": "minimize", "from": "training"}
    tables = {**FLOWER_APP, "app": {"path": plain_app(), "clients": CLIENTS}, "objective": objective}
    return Context("flower app, training", tables, flower_app)


def of_a_job() -> Iterator[Context]:
    """An NVFlare job as it is, made by its script and exported: every training is a run of the simulator."""
    tables = {
        "seed": 1,
        "space": {"client": {"step": {"choices": [0.5, 1.0]}}},
        "objective": {"metric": "loss", "direction": "minimize", "from": "training"},
        "budget": {"rounds": 1, "total": 2},
        "method": {"name": "random"},
    }
    yield Context("nvflare job", {**tables, "job": {"path": job()}}, nvflare_job)
    yield Context(
        "nvflare job, exported", {**tables, "job": {"path": exported_job(), "clients": 2}}, nvflare_job
    )


def with_a_table() -> Context:
    """FedTune with a table that was filled before."""
    method = {"name": "fedtune", "table": TABLE}
    tables = {**TORCH, "method": method, "budget": {"rounds": 6, "cohort": 3}}
    return Context("method fedtune, table", tables, simulated)


def ray() -> Context:
    """On a Ray cluster of this machine."""
    return Context("ray", TORCH, on_ray)


def methods() -> Iterator[Context]:
    """Every method, in a simulation."""
    for name in METHODS:
        yield Context(f"method {name}", _with_method(name), simulated)


def methods_elsewhere() -> Iterator[tuple[str, Context]]:
    """Every method on a table, over Flower and with a learner, for its own keys; with its name.

    Where a method cannot run at all, the context's own method is another: see `cannot`.
    """
    learner = {**LEARNER, "model": {"name": "svm"}, "budget": {"rounds": 1, "total": 12, "cohort": 3}}
    for name in METHODS:
        yield name, Context(f"method {name} over flower", _with_method(name), flower)
        if name not in NOT_THERE["on a table"]:
            small = {key: value for key, value in _method(name).items() if key != "points"}
            tables = _on_table(small)
            if name == "gp":  # both acquisitions choose alike where scores have no noise
                tables |= {"method": {**small, "trials": 6}, "evaluation": {"clients": 1}}
            yield name, Context(f"method {name} on a table", tables, tabular)
        if name not in NOT_THERE["with svm"]:
            yield (
                name,
                Context(f"method {name} with svm", _once({**learner, "method": _method(name)}), simulated),
            )


def cannot() -> Iterator[tuple[str, Context]]:
    """Methods where they cannot run: naming them there must be refused."""
    for name in NOT_THERE["on a table"]:
        yield name, Context(f"method {name} on a table", _on_table({"name": "random"}), tabular)
    for name in NOT_THERE["with svm"]:
        yield name, Context(f"method {name} with svm", {**LEARNER, "model": {"name": "svm"}}, simulated)


def missing() -> list[str]:
    """Learners that are not installed."""
    found = []
    for name in LEARNERS:
        try:
            Study.from_dict({**LEARNER, "model": {"name": name}}).federation(workers=0).close()
        except MissingExtraError:
            found.append(name)
    return found


def learners() -> Iterator[Context]:
    """Every learner that is installed, in a simulation."""
    for name in sorted(set(LEARNERS) - set(missing())):
        tables = {**LEARNER, "model": {"name": name}, "space": QUICK.get(name, {})}
        if name == "cash":  # from seed 1 trial 0 wins, and has no gain over itself to release
            tables["seed"] = 2
        yield Context(f"learner {name}", tables, simulated)
    bagging = {"model": {"name": "xgboost", "training": "bagging"}, "space": QUICK["xgboost"]}
    yield Context("learner xgboost, bagging", {**LEARNER, **bagging}, simulated)
    own = {"name": "estimator", "path": "sklearn.linear_model:LogisticRegression"}
    space = {"client": {"C": {"low": 1e-3, "high": 10.0, "log": True}}}
    yield Context("learner estimator", {**LEARNER, "model": own, "space": space}, simulated)


def tuners(part: str, name: str) -> Context:
    """A tuner that is put together, with this part."""
    usual: dict[str, Any] = {"schedule": {"name": "halving", "trials": 9}}
    made = {**usual, part: {"name": name}}
    if (part, name) == ("schedule", "halving"):
        made = usual
    elif part == "sampler":
        made["schedule"] = {"name": "fixed", "trials": 10, "side_by_side": 1}
    elif name == "reference_table":
        made["policy"]["file"] = TABLE
    if name == "proposals":
        made["sampler"]["file"] = PROPOSALS
    tables = {**TORCH, "method": {"name": "tuner", **made}, "budget": {"rounds": 6, "total": 60, "cohort": 6}}
    return Context(f"{part} {name}", tables, simulated)


def write_files() -> None:
    """Files that studies may name, in this directory: of devices, tables, proposals and arms."""
    lines = "".join(f"{client},{10 + client}\n" for client in range(CLIENTS))
    Path("devices.csv").write_text("client,speed\n" + lines)
    space = Space.from_dict(TORCH["space"])
    for name, rates in ((TABLE, (0.1, 0.2, 0.3, 0.05)), (OTHER_TABLE, (0.5, 0.6, 0.7, 0.8))):
        configs = [{"lr": rate, "momentum": 0.1} for rate in rates]
        ReferenceTable(Cells((0.2, 0.8), (50, 200)), configs, space).save(name)
    for name, rates in ((PROPOSALS, (0.11, 0.22, 0.33)), (OTHER_PROPOSALS, (0.44, 0.55, 0.66))):
        LearnedPolicy(
            ({"lr": rates[0], "momentum": 0.1}, {"lr": rates[1], "momentum": 0.2}), (0.0, -1.0)
        ).save(f"arms-{name}")
        Path(name).write_text("".join(f'{{"client": {{"lr": {rate}}}}}\n' for rate in rates))


def outcome(context: Context, tables: Tables, calls: bool = True) -> tuple[str, str]:
    """The digest of what was asked of the federation and of the result; and what the run said of it.

    Without `calls` what was asked does not count, only what came of it: a call repeats hyperparameters.
    """
    with (
        tempfile.TemporaryDirectory(prefix="fedhpo-settings-") as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        write_files()
        run = Path(folder) / "run"
        with comparing() as compared:
            facts, beside = context.run(Study.from_dict(tables), run)
        return digest(run, facts, [beside, compared], calls), " ".join(facts.get("said", ()))


@contextlib.contextmanager
def comparing() -> Iterator[list[Any]]:
    """What trials are compared by: in a small study the choice is often the same."""
    found: list[Any] = []
    compared = Evaluator.compared

    def noted(self: Evaluator, trials: Any) -> Any:
        scores = compared(self, trials)
        found.append([(score.value, score.rank_value) for score in scores])
        return scores

    with mock.patch.object(Evaluator, "compared", noted):
        yield found


#: What a result says of trials and of what they cost; the rest repeats settings.
_SEEN = ("best", "trials", "pareto", "personal", "gain", "cost", "tried", "policies", "failures")

#: Of these, what repeats hyperparameters.
_REPEATS = ("best", "trials", "tried")


def digest(run: Path, facts: Mapping[str, Any], beside: list[Any], calls: bool) -> str:
    """All answers of the federation, with the calls, and the result without what repeats settings."""
    found = hashlib.sha256()
    record = Record(run / RECORD, read_only=True)
    try:
        for event in record.events():
            if not event.kind.startswith("decide"):
                asked = event.call if calls else b""
                for part in (event.kind.encode(), asked, event.result or b"", repr(event.cost).encode()):
                    found.update(part)
    finally:
        record.close()
    cost = {key: value for key, value in facts["cost"].items() if key not in ("budget", "unspent_rounds")}
    simulated = facts.get("proxy") or {}  # what the server tried on data of its own
    proxy = [simulated.get("trials"), simulated.get("cost")]
    seen = {name: facts.get(name) for name in _SEEN if calls or name not in _REPEATS}
    diagnosed = (facts.get("flora") or {}).get("diagnostics")
    seen |= {"cost": cost, "proxy": proxy, "diagnosed": diagnosed}
    found.update(json.dumps([seen, beside], sort_keys=True, default=str).encode())
    return found.hexdigest()

"""Every key that a study may have, and other values for it: from schema, registries and dataclasses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from fedhpo.core.claims import GIVEN, LEFT_OUT, AllBut, Where, declared
from fedhpo.engine.hyperparameters import Local
from fedhpo.federations.fleet import Fleet
from fedhpo.methods.registry import METHODS, parts
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.objective import Objective
from fedhpo.search.evaluator import Evaluator
from fedhpo.study.from_dataclass import section_of
from fedhpo.study.kinds.learners import OPTIONS, OPTIONS_OF_ESTIMATOR
from fedhpo.study.problems import resolve
from fedhpo.study.schema import schema

#: Keys that change neither what is asked of clients nor the result, and why they may.
LISTED = {
    "name": "names the run",
    "flower.clients": "a limit: so many must come before a run begins, and all eight do",
    "nvflare.clients": "a limit: so many must come before a run begins, and all eight do",
    "nvflare.patience": "a limit: counts where clients come late",
    "flower.most_rows": "a limit: counts where a client says that it has more",
    "nvflare.most_rows": "a limit: counts where a client says that it has more",
    "evaluation.privacy.delta": "counts where several releases are accounted for together",
    "job.timeout": "a limit: counts where a run of the job takes longer",
    "device": "there may be no GPU where the cells run: 'cuda' is then refused",
    "budget.timeout": "ends a run early, to be resumed: none of these takes so long",
    "app.node_config": "keys that an app's own code may read",
    "app.setup": "calls a function of the user's own before the app is imported",
    "data.path": "where files lie: the cells' data has none",
    "objective.weighting": "clients of one size weigh the same: those of the table, and of the app",
    "evaluation.average": "'auto' does not know beforehand whether it compares trials at several rounds",
    "objective.direction": "is checked against the metric's own",
    "client.hyperparameters": "a check: names that are not listed are refused",
    "client.open": "a permission: lets names of the clients' own pass",
    "budget.stop": "a limit: counts where a race is decided before its scores are spent",
    "budget.margin": "a limit: counts where a race is decided before its scores are spent",
    "budget.baseline": "trains trial 0 to the end, where the method does not do so anyway",
    "budget.total": "a limit where the method's own settings say how long it trains",
    "evaluation.privacy.accounting": "all ways come to the same where all clients are asked once",
    "evaluation.privacy.gap": "the noise of a choice: out of so few trials the same ones may be taken",
    "evaluation.privacy.minimum": "a limit: counts where clients do not reply",
    "evaluation.privacy.budget": "a file that several runs draw on",
    "evaluation.privacy.total": "what these runs may spend together",
    "method.again": "takes away a part of robust halving that exact scores do not need",
    "method.race": "takes away a part of robust halving that exact scores do not need",
    "method.eliminate": "drops arms that are worse beyond doubt: no training here is long enough",
    "method.deadline": "a limit: counts where a party is slow",
    "method.minimum": "a limit: counts where parties do not answer",
}
#: Limits that the clients of these cells run into: see `troubled` and `nvflare_cells`.
_LIMITS = {
    "clients": [9],
    "patience": [0.01],
    "deadline": [0.04],
    "retries": [0],
    "quorum": [8],
    "message_bytes": [1],
    "hold_replies": [0.6],
    "most_rows": [1, 100],
}


def listed(path: str) -> str:
    """Why a key may do nothing; empty where it may not. A part's keys are those of the methods too."""
    path = path.removeprefix("proxy.")
    return LISTED.get(path, LISTED.get(f"method.{path.rpartition('.')[2]}", "") if "method." in path else "")


#: Values where a type alone does not give one that can be.
VALUES: Mapping[str, Sequence[Any]] = {
    "device": ["cuda"],
    "objectives": [["accuracy", "bytes_up"]],
    "constraints": [["accuracy >= 0.9"]],
    "enqueue": [[{"client": {"lr": 0.37}}]],
    "data.name": ["settings_cells.own:data"],
    "app.node_config": [{"note": 3}],
    "job.arguments": [["--step", "0.25"], ["--n_clients", "3"]],
    "job.clients": [3],
    "job.setup": ["settings_cells.own:half_steps"],
    "job.timeout": [2.0],
    "objective.weighting": ["uniform", "size"],
    "objective.at_zero": [["learning-rate"]],
    "data.clients": [7],
    "data.partition": [{"kind": "iid"}],
    "data.split": [{"kind": "inside", "validation": 0.4}],
    "data.part": [[0.0, 0.6]],
    "data.path": ["/nowhere"],
    "data.mixing": [1.0],
    "model.name": ["linear", "hgb", "svm"],
    "model.path": ["sklearn.svm:LinearSVC"],
    "model.scoring": ["accuracy"],
    "model.scaling": ["standard"],
    "model.training": ["bagging", "cyclic"],
    "client.train": ["settings_cells.own:train"],
    "client.hyperparameters": [["lr", "momentum"]],
    "client.beta1": [0.5],
    "client.beta2": [0.9],
    "client.eps": [0.1],
    "client.lr_schedule": ["cosine", "step"],
    "client.lr_step": [1],
    "client.horizon": [1, 2],
    "place": [{"name": "settings_cells.own:NotedPlace"}],
    "proxy.data.name": ["settings_cells.own:data"],
    "proxy.data.partition": [{"kind": "iid"}],
    "proxy.data.split": [{"kind": "inside", "validation": 0.4}],
    "proxy.data.part": [[0.0, 0.6]],
    "proxy.data.path": ["/nowhere"],
    "server.optimiser": ["fedadam"],
    "server.strategy": ["FedMedian"],
    "server.clip_norm": [0.01],
    "server.weight_cap": [1.0],
    "objective.metric": ["loss"],
    "objective.also": [["f1_macro"]],
    "objective.direction": ["maximize", "minimize"],
    "objective.over": ["worst", "median"],
    "objective.tail": [0.5],
    "objective.pooled": [True],
    "federation.availability": ["random"],
    "federation.devices": ["devices.csv"],
    "federation.deadline": [1.5],
    "federation.stragglers": [0.9],
    "federation.dropouts": [0.3],
    "evaluation.clients": [2],
    "evaluation.bias": [3.0],
    "evaluation.bias_per": ["message", "client"],
    "evaluation.average": ["recent"],
    "evaluation.privacy.epsilon": [3.0],
    "evaluation.privacy.evaluations": [200],
    "evaluation.privacy.budget": ["budget.json"],
    "evaluation.privacy.total": [50.0],
    "evaluation.privacy.delta": [1e-6],
    "evaluation.privacy.gap": [0.01],
    **{f"{place}.{key}": value for place in ("flower", "nvflare") for key, value in _LIMITS.items()},
    "budget.total": [5],
    "budget.margin": [0.2],
    "space.use": ["fedprox"],
    "space.policy": [{"gamma": 0.5}, {"eps": 0.2}],
    "space.server": [{"lr": {"low": 0.5, "high": 1.5}}],
    "space.client": [{"lr": {"low": 0.2, "high": 0.9}}],
    "space.model": [{"dropout": 0.5}],
    "method.start": ["arms-mine.jsonl"],
    "method.table": ["other.json"],
    "method.cutoff": [5.0],
    "method.eliminate": [0.5],
    "method.startup": [2, 4],
    "method.side_by_side": [1, 2],
    "method.client_bound": [1.01],
    "method.server_bound": [1.01],
    "method.decay": [50.0],
    "method.random_share": [1.0, 0.0],
    "method.discount": [0.01],
    "method.resample": [0.9],
    "method.scores": [60],
    "method.points": [2, 4],
    "method.acquisition": ["noisy-ei"],
    "method.sampler": ["random", "gp", "tpe", "list", "grid"],
    "method.file": ["other.json"],
    "method.sampler.file": ["yours.jsonl"],
    "method.patience": [1],
    "method.trials": [3, 1, 28],
    "method.policy.clip": [0.1],
    "method.encodings": [],
    "method.privacy": [{"epsilon": 1e6}, {"epsilon": 1e6, "release": "exact"}],
    "method.grid": [2],
    "method.shares": [[0.7, 0.1, 0.1, 0.1]],
    "method.diagnose": [True],
    "method.sampler.options": [{"n_startup_trials": 2}],
    "method.policy.encodings": [{str(client): [0.1 * client] for client in range(8)}],
    "method.indices": [[0.5]],
    "method.quantities": [[25]],
}
#: Momentum is not tuned: Adam has none.
_RATE_ALONE = {"space.client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}}
#: What a key needs beside it, where no dataclass declares it.
BESIDE: Mapping[str, Mapping[str, Any]] = {
    **{f"evaluation.privacy.{f.name}": {"evaluation.privacy.epsilon": 5.0} for f in fields(Privacy)},
    "evaluation.privacy.delta": {
        "evaluation.privacy.epsilon": 5.0,
        "evaluation.privacy.accounting": "pld",
        "evaluation.privacy.delta": 1e-3,
    },
    "evaluation.privacy.gap": {
        "evaluation.privacy.epsilon": 5.0,
        "evaluation.privacy.mechanism": "permute-and-flip",
    },
    "evaluation.privacy.total": {
        "evaluation.privacy.epsilon": 5.0,
        "evaluation.privacy.budget": "budget.json",
    },
    "evaluation.privacy.accounting": {"evaluation.privacy.epsilon": 5.0, "evaluation.clients": 2},
    "evaluation.bias": {"evaluation.clients": 3},
    "evaluation.bias_per": {"evaluation.clients": 3, "evaluation.bias": 3.0},
    "evaluation.average": {"evaluation.clients": 1},
    "objective.pooled": {"objective.metric": "f1_macro"},
    "method.discount": {"method.interval": 2},
    "method.policy.discount": {"method.policy.every": 2},
    "client.hyperparameters": {"client.train": "settings_cells.own:train"},
    "budget.stop": {"evaluation.clients": 2},
    "budget.margin": {"evaluation.clients": 2, "budget.stop": "decided"},
    "budget.horizon": {"client.lr_schedule": "cosine"},
    "client.lr": {"space.client": {"momentum": {"low": 0.0, "high": 0.9}}},
    **{f"client.{key}": _RATE_ALONE for key in ("momentum", "optimiser", "beta1", "beta2", "eps")},
    "method.equal_work": {"client.epochs": 2},
    "method.alpha": {"method.surface": "sgm+u"},
    "method.spread": {"method.best": 3},
    "method.schedule.judge": {"method.policy": {"name": "fedex"}},
    "client.lr_gamma": {"client.lr_step": 1},
    "client.lr_step": {"client.lr_step": 2},
    "objective.from": {"objective.metric": "train_loss"},
    "objective.at_zero": {"objective.metric": "train_loss", "objective.from": "training"},
}
_DATACLASSES = {"client": Local, "objective": Objective, "evaluation": Evaluator, "federation": Fleet}


@dataclass(frozen=True)
class Key:
    """A key, other values for it, and what it needs beside it to count."""

    path: str
    values: tuple[Any, ...]
    beside: Mapping[str, Any]


def general() -> Iterator[Key]:
    """All keys but those of [method], whose keys depend on its name."""
    whole = schema()
    for path, found in _leaves(whole, whole["properties"], ""):
        if path.partition(".")[0] != "method" and path not in ("proxy.method", "app.path", "job.path"):
            yield _key(path, found)


def of_model(estimator: bool) -> Iterator[Key]:
    """The keys of [model] that a learner has."""
    for name, default in (OPTIONS_OF_ESTIMATOR if estimator else OPTIONS).items():
        kind = {bool: "boolean", int: "integer"}.get(type(default), "string")
        yield _key(f"model.{name}", {"type": kind, "default": default})


def of_method(name: str) -> Iterator[Key]:
    """The settings of a method."""
    yield from _of(METHODS[name], "method")


def of_parts() -> Iterator[tuple[str, str, Key]]:
    """The settings of the parts of a tuner: which part, its name, and the key."""
    for part, registry in parts.items():
        for name, kind in registry.ours.items():
            for key in _of(kind, f"method.{part}"):
                yield part, name, key


def _of(kind: type[Any], where: str) -> Iterator[Key]:
    section = section_of(kind)
    whole = section.model_json_schema()
    for name, found in whole.get("properties", {}).items():
        yield _key(f"{where}.{name}", {**resolve(whole, found), **found}, kind)


def _leaves(
    whole: Mapping[str, Any], properties: Mapping[str, Any], where: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, found in properties.items():
        path, inner = f"{where}{name}", resolve(whole, found)
        if "properties" in inner and name != "method":
            yield from _leaves(whole, inner["properties"], f"{path}.")
        else:
            yield path, found


def _key(path: str, found: Mapping[str, Any], kind: type[Any] | None = None) -> Key:
    section, _, name = path.rpartition(".")
    short = f"method.{name}" if section.startswith("method.") else path
    values = VALUES.get(path, VALUES.get(short))
    kind = kind or _DATACLASSES.get(section)
    beside: dict[str, Any] = dict(BESIDE.get(path, {}))
    if kind is not None and is_dataclass(kind) and name in declared(kind):
        needed = _companions(kind, declared(kind)[name])
        beside |= {f"{section}.{key.rstrip('_')}": value for key, value in needed}
    if section == "server":
        beside |= {"server.aggregation": "trimmed_mean"} if name == "trim" else {}
    return Key(path, tuple(_others(found) if values is None else values), beside)


def _companions(kind: type[Any], either: Sequence[Where]) -> Iterator[tuple[str, Any]]:
    """Values under which a setting counts, but for those that are the defaults."""
    defaults = {f.name: f.default for f in fields(kind)}
    best = min(either, key=lambda where: sum(_needed(defaults[k], v) is not None for k, v in where.items()))
    for key, wanted in best.items():
        value = _needed(defaults[key], wanted)
        if value is not None:
            yield key, value


_USUAL_GIVEN = {"clients": 3, "privacy": {"epsilon": 5.0}, "stragglers": 0.5, "landmarks": 2}


def _needed(default: Any, wanted: Any) -> Any:
    if wanted in (None, LEFT_OUT) or default == wanted:
        return None
    if isinstance(wanted, AllBut):
        return "cosine"  # the only one of a kind that is never a default
    if isinstance(wanted, tuple):
        return None if default in wanted else wanted[0]
    return wanted


def given(key: str, value: Any) -> Any:
    """A value that counts as given."""
    return _USUAL_GIVEN.get(key.rpartition(".")[2], 1) if value == GIVEN else value


def _others(found: Mapping[str, Any]) -> list[Any]:
    """Values that the schema allows and that are not the default."""
    default = found.get("default")
    for one in found.get("anyOf", [found]):
        options = one.get("enum") or ([one["const"]] if "const" in one else None)
        if options:
            return [value for value in options if value != default]
        if one.get("type") == "boolean":
            return [True, False] if default is None else [not default]
        if one.get("type") == "integer":
            low, start = one.get("minimum", 1), default if isinstance(default, int) else 2
            return [max(low, start + 1), max(low, start - 1)]
        if one.get("type") == "number":
            return _numbers(one, default)
    return []


def _numbers(one: Mapping[str, Any], default: Any) -> list[float]:
    low = one.get("minimum", one.get("exclusiveMinimum", -math.inf))
    high = one.get("maximum", one.get("exclusiveMaximum", math.inf))
    start = float(default) if isinstance(default, int | float) else 0.5
    tried = (start * 2 + 0.2, start / 2, start + 0.3)
    return [value for value in tried if low < value < high and value != default]

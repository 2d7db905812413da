"""Random studies: every method, private or not, small enough to end in a few seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

Study = dict[str, Any]
Settings = dict[str, Any]

_PARTITIONS: tuple[Settings, ...] = (
    {"kind": "iid"},
    {"kind": "dirichlet", "alpha": 0.5},
    {"kind": "shards", "per_client": 2},
)
#: Kinds that score trials on the way: in others there is nothing to average.
_SCORE_OFTEN = ("sha", "fedex", "fedex-hyperband", "hyperband", "bohb", "fedpop-global", "fedpop-halving")
_MECHANISMS = ("laplace", "topk", "permute-and-flip", "repeated")


def _searching(name: str, **fixed: Any) -> Callable[[random.Random], Settings]:
    """A method whose number of trials follows from the budget."""
    return lambda rng: {"name": name, **fixed}


def _random(rng: random.Random) -> Settings:
    return {"name": "random", "side_by_side": rng.choice([2, 32]), "trials": rng.randint(3, 6)}


def _sha(rng: random.Random) -> Settings:
    return {"name": "sha", "trials": rng.choice([4, 6, 9]), "rate": rng.choice([2, 3])}


def _fedex(schedule: str) -> Callable[[random.Random], Settings]:
    def settings(rng: random.Random) -> Settings:
        trials = (
            {} if schedule == "hyperband" else {"trials": rng.randint(1, 3 if schedule == "fixed" else 6)}
        )
        return {
            "name": "fedex",
            "schedule": schedule,
            "arms": rng.choice([3, 9]),
            "eps": rng.choice([0.1, 0.5]),
            "steps": rng.choice(["aggressive", "adaptive", "constant"]),
            **trials,
        }

    return settings


def _fedpop(**fixed: Any) -> Callable[[random.Random], Settings]:
    def settings(rng: random.Random) -> Settings:
        return {
            "name": "fedpop",
            "population": rng.choice([3, 4, 6]),
            "interval": rng.choice([2, 3]),
            "resample": rng.choice([0.1, 0.5]),
            **fixed,
        }

    return settings


def _flora(rng: random.Random) -> Settings:
    return {
        "name": "flora",
        "configs": rng.choice([3, 5]),
        "local_rounds": 2,
        "surface": rng.choice(["aplm", "mplm", "sgm", "sgm+u"]),
        "sampler": rng.choice(["tpe", "random", "gp"]),
        "refine": rng.choice([0, 2]),
        "diagnose": rng.random() < 0.5,
    }


def _fedtune(rng: random.Random) -> Settings:
    return {
        "name": "fedtune",
        "indices": [0.2, 0.8],
        "quantities": [20, 40],
        "clients": 3,
        "length": 2,
        "steps": rng.randint(3, 5),
        "sampler": rng.choice(["gp", "random"]),
        "warm_start": rng.random() < 0.5,
    }


#: What is drawn in turn, so that every method comes up equally often; those that may be private are marked.
KINDS: dict[str, tuple[Callable[[random.Random], Settings], bool]] = {
    "random": (_random, True),
    "sha": (_sha, True),
    "tpe": (_searching("tpe", startup=2), True),
    "fedex": (_fedex("halving"), True),
    "fedpop": (_fedpop(), False),
    "hyperband": (_searching("hyperband"), True),
    "gp": (_searching("gp", startup=2), True),
    "grid": (_searching("grid", points=2, trials=5), True),
    "bohb": (_searching("bohb"), True),
    "fedex-fixed": (_fedex("fixed"), True),
    "fedpop-global": (_fedpop(local=False, judge="evaluation"), True),
    "fedpop-asynchronous": (_fedpop(asynchronous=True), False),
    "flora": (_flora, False),
    "fedtune": (_fedtune, False),
    "proxy": (_searching("proxy"), False),
    "fedpop-halving": (_fedpop(schedule="halving"), False),
    "fedex-hyperband": (_fedex("hyperband"), True),
    "flora-learner": (_flora, False),
}


def random_study(seed: int, kind: str) -> Study:
    """A study of the kind; the same one for the same seed."""
    rng = random.Random(f"study {seed}")
    settings, may_be_private = KINDS[kind]
    method = settings(rng)
    rounds = rng.choice([4, 6, 9, 12])
    study: Study = {
        "seed": rng.randrange(1000),
        "data": {
            "name": "digits",
            "clients": rng.choice([8, 12, 20]),
            "partition": dict(rng.choice(_PARTITIONS)),
            "seed": rng.randrange(10),
        },
        "model": _model(rng),
        "server": {"optimiser": rng.choice(["fedavg", "fedavg", "fedavgm", "fedadam"])},
        "space": _space(rng),
        "method": method,
        "budget": {"rounds": rounds, "total": rounds * rng.randint(4, 9), "cohort": rng.choice([3, 5])},
    }
    if rng.random() < 0.4:
        study["budget"]["baseline"] = True
    if may_be_private and rng.random() < 0.45:
        _make_private(study, kind, rng)
    elif rng.random() < 0.4:
        some = {"clients": 5, "average": "recent"} if kind in _SCORE_OFTEN else {"clients": 0.5}
        study["evaluation"] = rng.choice(
            [{"clients": 5}, {"clients": 5, "paired": False}, some, {"personalised": True}]
        )
    if rng.random() < 0.3 and "evaluation" not in study:
        study["objective"] = rng.choice([{"metric": "loss"}, {"over": "tail", "tail": 0.3}])
    _SPECIAL.get(kind, lambda *_: None)(study, rng)
    return study


def _model(rng: random.Random) -> Settings:
    found: list[Settings] = [{"name": "linear"}, {"name": "mlp", "hidden": [8]}, {"name": "mlp"}]
    return rng.choice(found)


def _space(rng: random.Random) -> Settings:
    """Hyperparameters whose names are drawn too, so that their order is."""
    client: Settings = {
        "lr": {"low": 0.001, "high": 1.0, "log": True, "default": 0.1},
        "momentum": {"low": 0.0, "high": 0.9, "default": 0.0},
        "batch_size": {"choices": [8, 16, 32], "default": 16},
        "epochs": {"low": 1, "high": 2, "default": 1},
        "weight_decay": {"low": 1e-6, "high": 1e-2, "log": True, "default": 1e-4},
    }
    names = ["lr", *rng.sample([name for name in client if name != "lr"], rng.randint(1, 3))]
    space: Settings = {"client": {name: client[name] for name in names}}
    if rng.random() < 0.7:
        space["server"] = {"lr": {"low": 0.1, "high": 2.0, "log": True, "default": 1.0}}
        if rng.random() < 0.4:
            space["server"]["lr_decay"] = {"low": 0.9, "high": 0.999, "log": True, "complement": True}
    return space


def _make_private(study: Study, kind: str, rng: random.Random) -> None:
    halving = kind in ("sha", "hyperband", "bohb", "fedex", "fedex-hyperband")
    privacy: Settings = {
        "epsilon": rng.choice([1.0, 10.0, 100.0]),
        "mechanism": rng.choice(_MECHANISMS) if halving else "laplace",
        "report_test": rng.random() < 0.3,
    }
    if rng.random() < 0.25:
        privacy["release"] = "exact"
    study["evaluation"] = {"privacy": privacy}


def _proxy(study: Study, rng: random.Random) -> None:
    del study["method"]
    method = rng.choice([{"name": "random", "trials": 3}, {"name": "tpe"}, {"name": "sha", "trials": 4}])
    study["proxy"] = {"data": {"name": "digits", "clients": 6, "seed": 5}, "method": method}
    del study["budget"]["total"]  # it trains once at the clients
    study["proxy"]["budget"] = {"rounds": 3, "total": 12, "cohort": 3}


def _for_fedtune(study: Study, rng: random.Random) -> None:
    study["proxy"] = {"data": {"name": "digits", "seed": 1}}
    del study["budget"]["total"]  # it trains once at the clients
    study["server"]["weighting"] = "uniform"
    study["data"]["partition"] = {"kind": "heterogeneity_index", "index": [0.2, 0.8], "quantity": [20, 40]}
    study["data"]["clients"] = 8


def _for_learner(study: Study, rng: random.Random) -> None:
    study["data"] = {"name": "digits", "clients": 3, "seed": study["data"]["seed"]}
    study["model"] = {"name": "svm"}
    study["space"] = {}
    del study["server"]
    study["method"] |= {"folds": 3, "sampler": rng.choice(["tpe", "random"])}
    del study["method"]["local_rounds"]
    study["budget"] = {"rounds": 1, "total": 1 + study["method"]["refine"], "cohort": 3, "baseline": True}
    study.pop("evaluation", None)
    study["objective"] = {"metric": "loss", "weighting": "uniform"}


def _for_flora(study: Study, rng: random.Random) -> None:
    study["data"]["clients"] = 4  # each of them searches
    study["budget"]["cohort"] = 3


_SPECIAL: Mapping[str, Callable[[Study, random.Random], None]] = {
    "proxy": _proxy,
    "fedtune": _for_fedtune,
    "flora": _for_flora,
    "flora-learner": _for_learner,
}


def is_exact(study: Study) -> bool:
    """Whether its noise is drawn anew each time, so that two runs of it differ."""
    return bool(study.get("evaluation", {}).get("privacy", {}).get("release") == "exact")


def is_private(study: Study) -> bool:
    """Whether its scores are released with noise."""
    return "privacy" in study.get("evaluation", {})


def to_toml(study: Study, rng: random.Random) -> str:
    """The study as a file, the keys of every table in a random order.

    >>> print(to_toml({"seed": 1, "space": {"client": {"lr": {"low": 0.1}}}}, random.Random(0)))
    seed = 1
    [space]
    client = { lr = { low = 0.1 } }
    """
    keys = _shuffled(study, rng)
    lines = [f"{key} = {_value(study[key], rng)}" for key in keys if not isinstance(study[key], dict)]
    for key in keys:
        if isinstance(study[key], dict):
            table = study[key]
            lines += [f"[{key}]", *(f"{k} = {_value(table[k], rng)}" for k in _shuffled(table, rng))]
    return "\n".join(lines)


def _value(value: Any, rng: random.Random) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_value(value[key], rng)}" for key in _shuffled(value, rng))
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item, rng) for item in value)}]"
    return json.dumps(value)  # numbers, strings and truth values are written alike


def _shuffled(table: Mapping[str, Any], rng: random.Random) -> list[str]:
    return rng.sample(list(table), len(table))

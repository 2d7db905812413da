"""Small studies of every method, their keys in no alphabetical order, for the tests of order and resuming."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

#: The README's space, in the README's order.
SPACE: dict[str, Any] = {
    "client": {
        "lr": {"low": 1e-4, "high": 1.0, "log": True, "default": 0.1},
        "momentum": {"low": 0.0, "high": 0.9, "default": 0.0},
        "batch_size": {"choices": [8, 16, 32, 64], "default": 32},
    },
    "server": {"lr": {"low": 0.1, "high": 10.0, "log": True, "default": 1.0}},
}
DATA: dict[str, Any] = {"name": "order_cases:clients", "rows": 20, "clients": 6}
PROXY: dict[str, Any] = {"name": "order_cases:clients", "seed": 1, "rows": 80, "clients": 4}

#: Settings of each method that make it small, and sections beside `[method]`.
SMALL: dict[str, dict[str, Any]] = {
    "none": {},
    "random": {"trials": 4, "side_by_side": 2},
    "grid": {
        "trials": 5,
        "points": {"server.lr": 1, "client.momentum": 2, "client.lr": 2},
        "side_by_side": 2,
    },
    "sha": {"trials": 4, "rate": 2},
    "tpe": {"trials": 5, "startup": 2},
    "gp": {"trials": 5, "startup": 2},
    "hyperband": {"unit": 1, "rate": 2},
    "bohb": {"unit": 1, "rate": 2, "random_share": 0.0},
    "fedex": {"arms": 4, "trials": 3, "rate": 3},
    "fedex-auto": {"arms": 4, "trials": 3},
    "fedpop": {"population": 3},
    "fedpop-auto": {"trials": 4, "rate": 2},
    "fedpop-authors-code": {"population": 4, "rate": 2},
    "fedtune": {
        "quantities": [50],
        "indices": [0.2, 0.8],
        "clients": 2,
        "length": 1,
        "steps": 4,
        "patience": 0,
    },
    "fedtune-auto": {
        "quantities": [50],
        "indices": [0.2, 0.8],
        "clients": 4,
        "cohort": 2,
        "length": 1,
        "steps": 4,
    },
    "flora": {"local_rounds": 1, "configs": 4, "diagnose": False, "regressor": "gp"},
    "proxy": {"name": "tpe", "trials": 5, "startup": 2},
    "robust": {},
    "auto": {},
    "fts": {"configs": 3, "local_rounds": 1, "features": 10},
    "fedhyper": {"schedule": "fixed", "trials": 3},
}
TOTALS = {"hyperband": 24, "bohb": 24}


def _total(method: str) -> dict[str, int]:
    """Rounds over all trials; what trains once has none."""
    return {} if method in ("proxy", "fedtune", "fedtune-auto", "none") else {"total": TOTALS.get(method, 20)}


def clients(**options: Any) -> list[tuple[Any, Any]]:
    """Data that is quick to train on; like a user's function it may look at the order of its options."""
    rng = np.random.default_rng([options.get("seed", 0), *map(ord, "".join(options))])
    middles = rng.normal(size=(3, 4))
    found = []
    for _ in range(options["clients"]):
        y = rng.integers(3, size=options["rows"])
        found.append(((middles[y] + rng.normal(size=(len(y), 4))).astype(np.float32), y))
    return found


def study_of(method: str) -> dict[str, Any]:
    """A study's tables."""
    given: dict[str, Any] = {
        "seed": 3,
        "model": {"name": "linear"},
        "data": DATA,
        "space": SPACE,
        "budget": {"rounds": 3, **_total(method), "cohort": 3, "baseline": True},
    }
    if method == "proxy":
        return given | {
            "proxy": {"data": PROXY, "method": SMALL[method], "budget": {"rounds": 2, "total": 10}}
        }
    if method.startswith("fedtune"):
        given["proxy"] = {"data": PROXY}
    return given | {"method": {"name": method, **SMALL[method]}}


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same with the keys of all tables in another order; lists keep theirs."""
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    keys = rng.sample(list(value), len(value))
    return {key: shuffled(value[key], rng) for key in keys}


def as_toml(tables: dict[str, Any]) -> str:
    """The tables as TOML, in their order."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in tables.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {_inline(inner)}' for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)

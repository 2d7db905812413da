"""Cases that are study files: the examples and the pages' studies, mutated as tables or as text."""

from __future__ import annotations

import copy
import re
import tomllib
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.mutate import mutated, mutated_bytes, toml

ROOT = Path(__file__).parents[2]
BASE: dict[str, Any] = {
    "seed": 0,
    "data": {"name": "digits", "clients": 10},
    "model": {"name": "mlp", "hidden": 8},
    "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
    "budget": {"rounds": 2, "total": 4, "cohort": 3},
}
#: Sections that the examples do not have, each put on top of `BASE`.
MORE: tuple[dict[str, Any], ...] = (
    {
        "data": {
            "name": "synthetic",
            "clients": 6,
            "samples": 20,
            "split": {"kind": "pools", "validation": 2, "test": 1},
        }
    },
    *(
        {
            "data": {
                "name": "digits",
                "clients": 8,
                "partition": partition,
                "split": {"kind": "inside", "test": 0.2},
            }
        }
        for partition in (
            {"kind": "iid", "stratified": True},
            {"kind": "dirichlet", "alpha": 0.5, "minimum": 2, "balanced": True},
            {"kind": "shards", "per_client": 2},
            {"kind": "iid"},
            {"kind": "heterogeneity_index", "index": [0.2, 0.8], "quantity": [20, 40], "replace": True},
            {"kind": "gaussian", "spread": 1.0, "quantity": 50, "deviation": 0.3},
            {"kind": "poisson", "rate": 1.0, "quantity": 50},
        )
    ),
    {
        "server": {
            "optimiser": "fedadam",
            "weighting": "uniform",
            "aggregation": "trimmed_mean",
            "trim": 0.2,
            "clip_norm": 1.0,
        },
        "space": {
            "client": {"lr": {"low": 0.01, "high": 1.0}},
            "server": {"beta1": {"choices": [0.5, 0.9]}, "lr": 0.1},
        },
    },
    {
        "objective": {"metric": "error", "over": "tail", "tail": 0.2, "weighting": "uniform"},
        "evaluation": {"clients": 0.5, "paired": False, "average": "recent", "bias": 1.0},
    },
    {
        "evaluation": {
            "clients": 5,
            "privacy": {"epsilon": 10.0, "mechanism": "topk", "minimum": 0.5, "report_test": True},
        }
    },
    {"method": {"name": "random", "trials": 2}},
    {"method": {"name": "grid", "points": 2}},
    {"method": {"name": "tpe", "startup": 2, "gamma": 0.2, "multivariate": True}},
    {"method": {"name": "gp", "acquisition": "noisy-ei", "startup": 2}},
    {"method": {"name": "hyperband", "rate": 3, "unit": 1}},
    {"method": {"name": "bohb", "random_share": 0.5}},
    {
        "method": {
            "name": "fedex",
            "schedule": "fixed",
            "arms": 3,
            "eps": 0.2,
            "steps": "adaptive",
            "landmarks": 1,
        }
    },
    {"method": {"name": "fedpop", "population": 2, "interval": 1, "quantile": 2, "judge": "evaluation"}},
    {
        "method": {
            "name": "flora",
            "configs": 2,
            "surface": "auto",
            "privacy": {"epsilon": 5.0, "unit": "party"},
        }
    },
    {
        "method": {"name": "fedtune", "indices": [0.2, 0.8], "quantities": [20], "length": 1, "steps": 2},
        "proxy": {"data": {"name": "digits", "seed": 1}},
    },
    {
        "proxy": {
            "data": {"name": "digits", "clients": 3},
            "method": {"name": "tpe"},
            "budget": {"rounds": 1, "total": 2},
        }
    },
    {"flower": {"clients": 3, "patience": 1.0, "deadline": 2.0, "retries": 0, "quorum": 1}},
    {
        "model": {"name": "mlp"},
        "space": {
            "client": {"lr": {"low": 0.1, "high": 1.0}},
            "model": {
                "hidden": {"values": [4, 8]},
                "dropout": {"low": 0.0, "high": 0.5, "when": {"model.hidden": 8}},
            },
        },
    },
)


def corpus() -> list[dict[str, Any]]:
    """All studies, of little data and few rounds."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.toml"))]
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        texts += re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = []
    for text in texts:
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        found.append(_small({**copy.deepcopy(BASE), **given} if "data" not in given else given))
    return found + [_small({**copy.deepcopy(BASE), **copy.deepcopy(more)}) for more in MORE]


def _small(given: dict[str, Any]) -> dict[str, Any]:
    """The same study on data that is at hand, so that a federation of it is built in no time."""
    for section in (given.get("data"), (given.get("proxy") or {}).get("data")):
        if (
            isinstance(section, dict)
            and ":" not in str(section.get("name"))
            and section.get("name") != "synthetic"
        ):
            section["name"] = "digits"
            for key in ("path", "vocabulary", "split"):
                section.pop(key, None)
            if section.get("clients", 0) > 20 or section is given.get("data"):
                section["clients"] = min(section.get("clients", 12), 12)
    if given.get("model", {}).get("name") not in ("mlp", "hgb", "svm"):
        given["model"] = {"name": "mlp", "hidden": 8}
    if given.get("evaluation", {}).get("clients", 0) > 5:
        given["evaluation"]["clients"] = 5
    budget = given.get("budget")
    if isinstance(budget, dict) and given.get("model", {}).get("name") == "mlp":
        budget.update({"rounds": 2, "total": 6, "cohort": 3})
    return given


def cheap(study: Any) -> bool:
    """Whether a run of the study takes a second or so."""
    budget, scope = study.file.budget, study.space.scope("client")
    method, tables = study.file.method.get("name"), (study.file.proxy is not None)
    epochs = scope.get("epochs", 1)
    return (
        study.file.model.name == "mlp"
        and study.file.data.name == "digits"
        and method not in ("flora", "fedtune")
        and not tables
        and budget.rounds <= 3
        and (budget.total or 30) <= 30
        and max(getattr(epochs, "high", 1), epochs if isinstance(epochs, int) else 1) <= 3
        and not ({"steps", "batch_size"} & set(scope))
        and not study.space.scope("model").get("layers")
        and not study.evaluator.personalised
    )


def check(path: Path, tune: bool) -> None:
    """What the commands do with a study file: read it, build its federation, and maybe run it."""
    from fedhpo.study import Study

    study = Study.load(path)
    study.to_dict()
    with study.federation(workers=0):
        pass
    if tune and cheap(study):
        study.tune(path.with_name("run"), workers=0, timeout=2.0)


def as_tables(rng: Random, folder: Path, studies: list[dict[str, Any]]) -> None:
    """A study with some of its values changed."""
    text = toml(mutated(rng.choice(studies), rng))
    (folder / "study.toml").write_text(text, encoding="utf-8")
    check(folder / "study.toml", rng.random() < 0.1)


def as_text(rng: Random, folder: Path, studies: list[dict[str, Any]]) -> None:
    """The bytes of a study file changed."""
    content = toml(rng.choice(studies)).encode()
    (folder / "study.toml").write_bytes(mutated_bytes(content, rng))
    check(folder / "study.toml", rng.random() < 0.1)


def as_mapping(rng: Random, folder: Path, studies: list[dict[str, Any]]) -> None:
    """A study given from Python, whose values may be of any type."""
    from fedhpo.study import Study
    from fuzzing.mutate import odd, places

    given = copy.deepcopy(rng.choice(studies))
    path = rng.choice(places(given))
    holder = given
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = odd(rng)
    Study.from_dict(given).to_dict()

"""Cases that are Python calls with an odd argument or two."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.mutate import Hollow, odd


def classes() -> list[type[Any]]:
    """The dataclasses that users make: methods and their parts, evaluation, data, hyperparameters."""
    import fedhpo as fh
    from fedhpo import data, learners, methods, policies, samplers, schedules
    from fedhpo.methods import fedex, fedpop, fedtune
    from fedhpo.methods.flora import surfaces

    found = {
        fh.Float,
        fh.Int,
        fh.Choice,
        fh.Ordinal,
        fh.Config,
        fh.LocalSearch,
        fh.LocalPrivacy,
        fh.FineTune,
        fh.Work,
        fh.Evaluator,
        fh.Objective,
        fh.Privacy,
    }
    for package in (data, fedex, fedpop, fedtune, learners, methods, policies, samplers, schedules, surfaces):
        named = (getattr(package, name) for name in package.__all__)
        found |= {one for one in named if isinstance(one, type) and is_dataclass(one)}
    # Those that the library makes itself, from what was checked before.
    unmade = {
        "Dataset",
        "Encoding",
        "Profile",
        "Profiles",
        "ProfileQuery",
        "FederatedData",
        "Split",
        "Observation",
        "Score",
        "FedExState",
        "FedPopState",
        "Landmark",
        "GroupScores",
        "Simulator",
        "Simulated",
        "Proxies",
        "ProxySet",
        "CellSearch",
    }
    return sorted(
        (c for c in found if isinstance(c, type) and c.__name__ not in unmade and not inspect.isabstract(c)),
        key=lambda c: (c.__module__, c.__name__),
    )


def _required(rng: Random) -> dict[str, Any]:
    """Good values of fields that must be given."""
    import fedhpo as fh
    from fedhpo.methods.fedtune import Cells
    from fedhpo.schedules import Halving
    from fedhpo.testing import ToyFederation

    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    return {
        "low": 1,
        "high": 5,
        "values": [1, 2],
        "options": ["a", "b"],
        "clients": 4,
        "alpha": 0.5,
        "index": 0.5,
        "quantity": 10,
        "epsilon": 1.0,
        "space": space,
        "schedule": Halving(3),
        "federation": ToyFederation,
        "trial": 0,
        "cohort": [0, 1],
        "client": {"lr": 0.1},
        "cells": Cells((0.5,), (10,)),
        "configs": ({"lr": 0.1},),
        "arms": ({"lr": 0.1}, {"lr": 0.2}),
        "log_weights": (0.0, -1.0),
        "table": None,
        "name": "mine",
        "path": "sklearn.svm:SVC",
        "file": "table.json",
        "estimator": "sklearn.svm:SVC",
        "party": 0,
        "size": 10,
        "losses": (0.5,),
        "learners": {},
        "algorithms": {},
    }


def constructor(rng: Random, folder: Path, kinds: list[type[Any]]) -> None:
    """One of the classes, one or two of its fields odd; methods are then tried on a toy federation."""
    import fedhpo as fh
    from fedhpo.protocol.method import Method

    kind = rng.choice(kinds)
    good = _required(rng)
    if kind.__name__ == "PartyPairs":
        good["configs"] = (fh.Config(client={"lr": 0.1}),)
    if kind.__name__ == "LocalSearch":
        good["configs"] = 3
    all_fields = [f for f in fields(kind) if f.init]
    given = {
        f.name: good[f.name]
        for f in all_fields
        if f.default is MISSING and f.default_factory is MISSING and f.name in good
    }
    for field in rng.sample(all_fields, min(len(all_fields), rng.choice((1, 1, 2)))):
        given[field.name] = odd(rng)
    made = kind(**given)
    repr(made)
    if hasattr(made, "to_dict"):
        made.to_dict(*([3] if kind.__name__ == "LocalPrivacy" else []))
    if isinstance(made, Method | fh.Tuner) and not isinstance(made, fh.FLoRA):  # toys do not search
        tuned(made, folder)
    elif kind.__module__.startswith("fedhpo.schedules"):
        tuned(fh.Tuner(made), folder)
    elif kind.__module__.startswith("fedhpo.samplers"):
        tuned(fh.Tuner(fh.schedules.FixedLength(3, 1), made), folder)
    elif isinstance(made, fh.Evaluator):
        tuned("random", folder, evaluation=made)
    elif isinstance(made, fh.Objective):
        tuned("random", folder, objective=made)
    elif kind.__module__.startswith("fedhpo.data.") and callable(made):
        _deal(made)


def _deal(made: Any) -> None:
    """Rows to clients, or to splits."""
    import fedhpo as fh

    if "split" in type(made).__module__:
        made(fh.data.Split.from_lists([range(10), range(10, 15)]), np.random.default_rng(0))
    else:
        made(np.arange(60) % 4, np.random.default_rng(0), np.arange(60) % 6)


class LateRefusal(Exception):
    """A setting was refused after training had begun."""


def toy_space() -> Any:
    """A space with something in most scopes."""
    import fedhpo as fh

    return fh.Space(
        client={"lr": fh.Float(1e-3, 1.0, log=True), "batch_size": fh.Ordinal([8, 16])}, server={"lr": 1.0}
    )


def tuned(method: Any, folder: Path, **given: Any) -> None:
    """A short run on a toy federation; what cannot be must be refused before anything is trained."""
    import fedhpo as fh
    from fedhpo.testing import ToyFederation

    federation = ToyFederation(clients=6, noise=0.0)
    trained = []
    callbacks = [lambda event: trained.append(event.kind)]
    arguments = {"rounds": 3, "total": 30, "cohort": 3, "callbacks": callbacks, "timeout": 5.0, **given}
    try:
        fh.tune(
            federation,
            given.pop("space", toy_space()),
            method,
            **{k: v for k, v in arguments.items() if k != "space"},
        )
    except fh.InputError as error:
        if trained:
            raise LateRefusal(f"refused after {len(trained)} events: {error}") from error
        raise


def tune(rng: Random, folder: Path, _: Any) -> None:
    """`fedhpo.tune` with odd arguments."""
    names = (
        "method",
        "rounds",
        "total",
        "cohort",
        "seed",
        "run",
        "objective",
        "evaluation",
        "callbacks",
        "timeout",
        "enqueue",
        "baseline",
        "space",
    )
    odds: dict[str, Callable[[], Any]] = {
        "callbacks": lambda: rng.choice(
            (
                [lambda: None],
                [lambda a, b: None],
                print,
                [print],
                lambda event: None,
                [3],
                3,
                "x",
                [None],
                [lambda *, event: None],
                (Hollow(),),
                [lambda event, more=1: None],
            )
        ),
        "enqueue": lambda: rng.choice(
            (
                [{"lr": 0.1}],
                [{"client.lr": 0.1}],
                [{"client": {"lr": 5.0}}],
                [{"client": {"lr": "a"}}],
                {"lr": 0.1},
                [3],
                "x",
                3,
                [None],
                [{"client": 3}],
                [{"client": {"rl": 0.1}}],
                [{3: {}}],
                [{"client": {"lr": float("nan")}}],
            )
        ),
        "method": lambda: rng.choice(
            ("SHA", "fedexx", 3, None, [], object, "sha", "hyperbnad", {"name": "sha"}, 1.5)
        ),
        "space": lambda: rng.choice(({"client": {"lr": 0.1}}, None, 3, "x", [], _no_names())),
        "run": lambda: rng.choice(
            (folder / "run", str(folder / "r"), "", 3, b"x", folder, "\x00", [], "x" * 400, 1.5)
        ),
    }
    given = {}
    for name in rng.sample(names, rng.choice((1, 1, 2))):
        given[name] = odds[name]() if name in odds and rng.random() < 0.7 else odd(rng)
    method = given.pop("method", "random")
    if "timeout" in given and given["timeout"] is None:
        given.pop("timeout")
    tuned(method, folder, **given)


def _no_names() -> Any:
    import fedhpo as fh

    return fh.Space(client={"lr": 0.1})


def space(rng: Random, folder: Path, _: Any) -> None:
    """Spaces of odd values, configs for them, and their form in files."""
    import fedhpo as fh

    def one() -> Any:
        return rng.choice(
            (
                odd(rng),
                fh.Float(0.1, 1.0),
                fh.Int(1, 5),
                fh.Choice(["a", "b"]),
                0.1,
                (1e-3, 1.0),
                [1, 2],
                {"low": 1, "high": 2},
                range(3),
            )
        )

    scopes = rng.sample(("client", "server", "model", "policy"), rng.choice((1, 2)))
    made = fh.Space(**{s: rng.choice(({"lr": one(), "b": one()}, {"x": one()}, odd(rng))) for s in scopes})
    made.default(), made.size, made.to_dict(), repr(made)
    made.sample(np.random.default_rng(0))
    action = rng.randrange(7)
    if action == 0:
        made.complete(rng.choice(({"client": {"lr": odd(rng)}}, odd(rng), {"lr": 0.1})))
    elif action == 1:
        fh.Space.from_dict(rng.choice((odd(rng), {"client": odd(rng)}, {"client": {"lr": odd(rng)}})))
    elif action == 2:
        list(made.grid(rng.choice((odd(rng), {"client.lr": odd(rng)}, 2))))
    elif action == 3:
        made.from_unit(odd(rng))
    elif action == 4:
        made.validate(fh.Config(client={"lr": odd(rng)}))
    elif action == 5:
        fh.Config.from_dict(rng.choice((odd(rng), {"client": odd(rng)}, {"client": {"lr": odd(rng)}})))
    else:
        made.subspace(rng.choice((["client"], odd(rng), "client")))


def data(rng: Random, folder: Path, _: Any) -> None:
    """Users' own data, the sets by name, and simulations with them."""
    import fedhpo as fh

    action = rng.randrange(5)
    if action == 0:
        fh.from_clients(
            _clients(rng),
            **_some(rng, ("validation", "test", "task", "classes", "seed", "mean", "std", "name")),
        )
    elif action == 1:
        x, y = _array(rng), _array(rng)
        partition = rng.choice((fh.data.IID(2), fh.data.Dirichlet(2, 0.5), fh.data.Natural(), odd(rng)))
        more = _some(rng, ("groups", "split", "task", "classes", "seed", "mean", "std"))
        fh.from_arrays(x, y, partition, **more)
    elif action == 2:
        name = rng.choice(("digits", "digits", "synthetic", "Digits", "cifar10", odd(rng)))
        few = {"clients": 4} if name == "synthetic" else {}
        fh.load(
            name, **few | _some(rng, ("clients", "partition", "split", "seed", "path", "samples", "image"))
        )
    elif action == 3:
        whole = fh.data.Split.from_lists([[0, 1], [2, 3]])
        given = {
            "x": np.zeros((4, 2), np.float32),
            "y": np.arange(4) % 2,
            "train": whole,
            "validation": fh.data.Split.from_lists([[], []]),
            "test": fh.data.Split.from_lists([[], []]),
            "task": "classification",
            "classes": 2,
        }
        given |= _some(rng, (*given, "mean", "std", "name", "client_names"))
        repr(fh.FederatedData(**given).validate())
    else:
        names = (
            "server",
            "weighting",
            "aggregation",
            "trim",
            "clip_norm",
            "loss",
            "train",
            "workers",
            "device",
            "stacking",
            "missing",
            "ray",
        )
        given = {"workers": 0} | _some(rng, names, 0.6)
        if given["workers"] is not None and not isinstance(given["workers"], bool) and given["workers"] != 0:
            given["workers"] = rng.choice((-1, 0.5, "two", float("nan"), [1]))
        if isinstance(given.get("ray"), str):
            given["ray"] = None
        model = rng.choice(("mlp", "mlp", "resnet50", "MLP", odd(rng)))
        good = [(np.zeros((6, 3)), np.arange(6) % 2)] * 2
        with fh.simulate(model, rng.choice((good, good, _clients(rng))), **given):
            pass


def _some(rng: Random, names: tuple[str, ...], share: float = 0.3) -> dict[str, Any]:
    return {name: odd(rng) for name in rng.sample(names, rng.choice((1, 2)))} if rng.random() < share else {}


def _array(rng: Random) -> Any:
    return rng.choice(
        (
            np.zeros((6, 3)),
            np.arange(6) % 2,
            np.zeros((6, 3, 3)),
            np.zeros(6),
            np.zeros((0, 3)),
            np.array(["a"] * 6),
            np.full((6, 3), np.nan),
            np.zeros((6, 3), complex),
            np.zeros((6, 3), object),
            [[1, 2]] * 6,
            [1] * 6,
            [[1], [1, 2]],
            np.arange(6) - 3,
            np.arange(6) + 10**12,
            np.zeros((6, 1), int),
            np.float64(3),
            odd(rng),
        )
    )


def _clients(rng: Random) -> Any:
    """Entries of clients that may not go together, or not be clients at all."""
    import torch

    def entry() -> Any:
        return rng.choice(
            (
                (np.zeros((6, 3)), np.arange(6) % 2),
                (np.zeros((6, 3)), np.arange(6) % 2),
                (_array(rng), _array(rng)),
                np.zeros((6, 3)),
                (np.zeros((6, 3)),),
                (np.zeros((6, 3)), np.arange(6) % 2, None),
                odd(rng),
                torch.utils.data.TensorDataset(torch.zeros(6, 3), torch.zeros(6)),
                torch.utils.data.TensorDataset(torch.zeros(6, 3)),
                [(np.zeros(3), 1)] * 4,
                [np.zeros(3)] * 4,
                {"train": (np.zeros((6, 3)), np.arange(6) % 2)},
                {"train": odd(rng)},
                {"tarin": 1},
                torch.zeros(6, 3),
                (torch.zeros(6, 3), torch.zeros(6)),
                (torch.zeros(6, 3, requires_grad=True), torch.zeros(6, dtype=torch.bfloat16)),
            )
        )

    found = [entry() for _ in range(rng.choice((1, 2, 3)))]
    return rng.choice((found, found, {str(i): one for i, one in enumerate(found)}, entry(), iter(found)))

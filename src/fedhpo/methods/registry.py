"""What a study file or `fedhpo.tune` can name: methods, and the parts that a tuner is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from fedhpo import samplers, schedules
from fedhpo.core.errors import InputError
from fedhpo.core.objects import call_own
from fedhpo.core.registry import Registry
from fedhpo.core.settings import shown
from fedhpo.methods.auto import Auto
from fedhpo.methods.fedex.commit import FedExAuto
from fedhpo.methods.fedex.method import FedEx
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedhyper import FedHyper, HyperGradient
from fedhpo.methods.fedpop.authors_code import FedPopAuthorsCode
from fedhpo.methods.fedpop.auto import FedPopAuto
from fedhpo.methods.fedpop.local import FedPopLocal
from fedhpo.methods.fedpop.method import FedPop
from fedhpo.methods.fedtune.method import FedTune, FedTuneAuto
from fedhpo.methods.fedtune.table_policy import TablePolicy
from fedhpo.methods.flora.method import FLoRA
from fedhpo.methods.fts import FTS
from fedhpo.methods.hpn import HPN
from fedhpo.methods.presets import BOHB, GP, SHA, TPE, GridSearch, Hyperband, NoTuning, RandomSearch
from fedhpo.methods.robust import Robust, RobustHalving
from fedhpo.methods.tuner import Tuner
from fedhpo.policies import Cooling, Fixed
from fedhpo.protocol.method import Method

METHODS: Mapping[str, type[Method]] = {
    method.name: method
    for method in (
        Auto,
        NoTuning,
        RandomSearch,
        GridSearch,
        SHA,
        Robust,
        TPE,
        GP,
        Hyperband,
        BOHB,
        FedEx,
        FedExAuto,
        FedPop,
        FedPopAuto,
        FedPopAuthorsCode,
        FedTune,
        FedTuneAuto,
        FLoRA,
        FTS,
        FedHyper,
    )
}
SCHEDULES: Mapping[str, type[Any]] = {
    "fixed": schedules.FixedLength,
    "halving": schedules.Halving,
    "hyperband": schedules.Hyperband,
    "robust": RobustHalving,
}
SAMPLERS: Mapping[str, type[Any]] = {
    "random": samplers.Random,
    "grid": samplers.Grid,
    "tpe": samplers.TPE,
    "gp": samplers.GP,
    "bohb": samplers.BOHB,
    "optuna": samplers.OptunaSampler,
    "proposals": samplers.Proposals,
}
POLICIES: Mapping[str, type[Any]] = {
    "fixed": Fixed,
    "cooling": Cooling,
    "fedex": FedExPolicy,
    "fedpop": FedPopLocal,
    "fedhyper": HyperGradient,
    "hpn": HPN,
    "reference_table": TablePolicy,
}

methods: Registry[type[Any]] = Registry("method", METHODS)
#: The parts of a tuner, by the key that names them.
parts: Mapping[str, Registry[type[Any]]] = {
    "schedule": Registry("schedule", SCHEDULES),
    "sampler": Registry("sampler", SAMPLERS),
    "policy": Registry("policy", POLICIES, "client policy"),
}


def settings_class(registry: Registry[type[Any]], name: Any, key: str = "") -> type[Any]:
    """The class that has this name, whose fields are its settings."""
    found: Any = registry.find(name, key)
    if not isinstance(found, type) or not is_dataclass(found):
        what = "a plain class" if isinstance(found, type) else f"an object of type {type(found).__name__}"
        raise InputError(
            f"{key or registry.kind} = {name!r}: must be a dataclass, whose fields are its settings; "
            f"found {what}"
        )
    if registry.kind == "method" and not issubclass(found, Method):
        raise InputError(f"{key or 'method'} = {name!r}: must inherit from fedhpo.Method")
    return found


def method_of(method: str | Method | Tuner | None) -> Method | Tuner:
    """The method meant by a name or None (`auto`); a method itself stays as it is."""
    if method is None:
        return Auto()
    if isinstance(method, str):
        made: Method = call_own(settings_class(methods, method), {}, f"method = {method!r}")
        return made
    if not isinstance(method, Method | Tuner):
        raise InputError(
            f"method must be a name or a method that inherits from fedhpo.Method, not {shown(method)}"
            f"{_method_around(method)}"
        )
    return method


def _method_around(part: object) -> str:
    """What to write where a part of a tuner was given in the place of a method."""
    of, preset = type(part) if not isinstance(part, type) else part, ""
    if isinstance(part, type) and issubclass(part, Method):
        return f": that is a class; write fedhpo.{part.__name__}()"
    for kind, ours in (("sampler", SAMPLERS), ("schedule", SCHEDULES), ("policy", POLICIES)):
        name = next((name for name, one in ours.items() if one is of), None)
        if name is not None:
            preset = f"fedhpo.{METHODS[name].__name__}(), or " if name in METHODS else ""
            given = {"sampler": "fedhpo.schedules.FixedLength(), sampler=", "policy": "..., policy="}
            return f": that is a {kind}; write {preset}fedhpo.Tuner({given.get(kind, 'schedule=')}...)"
    return ""

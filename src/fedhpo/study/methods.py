"""The section `[method]`: a method by its name, or a tuner put together from its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.presets import PRESETS
from fedhpo.aggregation.server import optimisers
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.phrasing import shown
from fedhpo.core.registry import Registry
from fedhpo.data.own_partition import partitions
from fedhpo.methods.auto import Auto
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.registry import methods, parts, settings_class
from fedhpo.methods.tuner import Tuner
from fedhpo.privacy.privacy import MECHANISMS
from fedhpo.protocol.method import Method
from fedhpo.protocol.own_metric import metrics
from fedhpo.study.from_dataclass import build

#: The keys of a tuner that is put together.
TUNER_KEYS = (*parts, "exchange")


def method_in(values: Mapping[str, Any], where: str = "method") -> Method | Tuner:
    """The method that a section describes; `auto` if it names none.

    >>> method_in({"name": "tpe", "gamma": 0.2})
    TPE(trials=None, side_by_side=1, startup=None, gamma=0.2, multivariate=True)
    >>> tuner = method_in({"schedule": {"name": "halving", "trials": 9}, "sampler": {"name": "tpe"}})
    >>> tuner.schedule, tuner.policy
    (Halving(trials=9, rate=3, eliminations=None, finalists=1, judge='evaluation'), Fixed())
    """
    if is_composed(values):
        return _tuner({key: value for key, value in values.items() if key != "name"}, where)
    if values and "name" not in values:
        raise InputError(
            f"{where}.name is missing: {', '.join(values)} belong to one, such as name = 'sha'; without "
            "any setting the default is auto"
        )
    made: Method = _made(methods, {"name": Auto.name, **values}, where)
    return made


def is_composed(values: Mapping[str, Any]) -> bool:
    """Whether a section puts a tuner together: it has no name, or "tuner", and tables for the parts."""
    if "name" in values:
        return bool(values["name"] == Tuner.name)
    return any(key in TUNER_KEYS or isinstance(value, Mapping) for key, value in values.items())


def brought(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and name of each method, part and server optimiser in a study's tables that must be imported.

    >>> list(brought({"method": {"name": "pbt:PBT"}, "server": {"optimiser": "fedadam"}}))
    [('method.name', 'pbt:PBT')]
    """
    proxy = _inner(given, "proxy")
    for registry, key, name in (
        *_names(_inner(given, "method"), "method"),
        *_names(_inner(proxy, "method"), "proxy.method"),
        (optimisers, "server.optimiser", _inner(given, "server").get("optimiser")),
        *_own_parts(given),
        *((optimisers, "space.server.optimiser", name) for name in _tuned_optimisers(given)),
    ):
        if isinstance(name, str) and registry.brings(name):
            yield key, name


def _own_parts(given: Mapping[str, Any]) -> Iterator[tuple[Registry[Any], str, Any]]:
    """What a study names besides: a rule, a partition, a mechanism, a metric."""
    rule = _inner(given, "server").get("aggregation")
    rules: Registry[Any] = Registry("aggregation", dict.fromkeys((*Aggregation.RULES, *PRESETS)))
    yield rules, "server.aggregation", rule.get("name") if isinstance(rule, Mapping) else rule
    yield partitions(), "data.partition.kind", _inner(_inner(given, "data"), "partition").get("kind")
    how = _inner(_inner(given, "evaluation"), "privacy").get("mechanism")
    mechanisms: Registry[Any] = Registry("privacy", MECHANISMS)
    yield mechanisms, "evaluation.privacy.mechanism", how.get("name") if isinstance(how, Mapping) else how
    yield metrics, "objective.metric", _inner(given, "objective").get("metric")


def _names(method: Mapping[str, Any], where: str) -> Iterator[tuple[Registry[Any], str, Any]]:
    """What a section [method] names, and where it would be looked up."""
    yield methods, f"{where}.name", method.get("name")
    for key, registry in parts.items():
        yield registry, f"{where}.{key}.name", _inner(method, key).get("name")


def _tuned_optimisers(given: Mapping[str, Any]) -> list[Any]:
    """All that a server optimiser which is tuned, or fixed in the space, could be called."""
    found = [_inner(_inner(given, "space"), "server").get("optimiser")]
    for one in found:  # it grows by what stands inside
        if isinstance(one, Mapping):
            found += one.values()
        elif isinstance(one, list | tuple):
            found += one
    return found


def _inner(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The table under this key; an empty one where there is none."""
    found = given.get(key)
    return found if isinstance(found, Mapping) else {}


def _tuner(values: Mapping[str, Any], where: str) -> Tuner:
    for key in values:
        if key not in TUNER_KEYS:
            raise InputError(f"{where}: {unknown_name('key', key, ('name', *TUNER_KEYS))}")
    if "schedule" not in values:
        known = ", ".join(parts["schedule"].names())
        raise InputError(f"{where}.schedule is missing: a table whose name is one of {known}, or your own")
    made = {
        key: _made(registry, _table(values[key], f"{where}.{key}", registry), f"{where}.{key}")
        for key, registry in parts.items()
        if key in values
    }
    if "exchange" in values:
        here = f"{where}.exchange"
        made["exchange"] = build(Exchange, _table(values["exchange"], here), here)
    try:
        return Tuner(**made)
    except InputError as error:
        raise InputError(f"{where}.{error}") from None


def _table(value: Any, where: str, registry: Registry[Any] | None = None) -> Mapping[str, Any]:
    named = registry is not None
    example = f'{{ name = "{next(iter(registry.ours))}" }}' if registry is not None else "{ interval = 5 }"
    if not isinstance(value, Mapping):
        raise InputError(f"{where} = {shown(value)}: must be a table, such as {example}")
    if named and "name" not in value:
        raise InputError(f"{where}.name is missing: write, say, {where.rpartition('.')[2]} = {example}")
    return value


def _made(registry: Registry[Any], values: Mapping[str, Any], where: str) -> Any:
    """The object that a table describes: `name`, and settings."""
    settings = {key: value for key, value in values.items() if key != "name"}
    return build(settings_class(registry, values["name"], f"{where}.name"), settings, where)

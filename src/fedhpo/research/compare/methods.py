"""Methods by name, for a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.methods import Auto, Tuner
from fedhpo.methods.registry import methods
from fedhpo.protocol.method import Method
from fedhpo.study import Study
from fedhpo.study.methods import is_composed
from fedhpo.tuning.effects import compares_often

#: These would score all their trials at the very end; one after the other they have an incumbent on the way.
_ONE_BY_ONE = ("random", "grid")


def with_method(study: Study, name: str, seed: int | None = None) -> Study:
    """The study with another method: with the study's settings if it is its own, else with the usual ones.

    `proxy` is the study's proxy search, if it has one; `tuner` what its [method] puts together.
    """
    given: dict[str, Any] = {
        key: value for key, value in study.given.items() if key not in ("method", "proxy")
    }
    if name == "proxy":
        if study.file.proxy is None:
            raise InputError("method 'proxy': the study has no [proxy] section")
        given = {**_without(given, "budget", "total"), "proxy": study.given["proxy"]}
    else:
        own = dict(study.given.get("method", {}))
        is_own = name == (Tuner.name if is_composed(own) else own.pop("name", Auto.name))
        if not is_own and getattr(methods.find(name), "trains_once", False):
            given = _without(given, "budget", "total")
        if name.startswith("fedtune") and study.file.proxy is not None:
            given["proxy"] = {"data": study.given["proxy"]["data"]}
        usual = {"side_by_side": 1} if name in _ONE_BY_ONE else {}
        given["method"] = {"name": name, **usual, **(own if is_own else {})}
    if seed is not None:
        given["seed"] = seed
    found = Study.from_dict(given, path=study.path)
    if found.evaluator.average == "recent" and not compares_often(found.method):
        return Study.from_dict(_without(given, "evaluation", "average"), path=study.path)
    return found


def _without(given: Mapping[str, Any], section: str, key: str) -> dict[str, Any]:
    """The study without a key that other methods of the comparison honour, and this one does not."""
    rest = {name: value for name, value in given.get(section, {}).items() if name != key}
    return {**given, section: rest}


def method_named(study: Study, name: str) -> Method | Tuner:
    """A method for a table."""
    if name == "proxy":
        raise InputError("method 'proxy' needs two federations: a table is one")
    return with_method(study, name).method

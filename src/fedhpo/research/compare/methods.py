"""Methods by name, for a comparison."""

from __future__ import annotations

from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods import METHODS, SHA
from fedhpo.protocol.method import Method
from fedhpo.study import Study

#: These would score all their trials at the very end; one after the other they have an incumbent on the way.
_ONE_BY_ONE = ("random", "grid")


def with_method(study: Study, name: str, seed: int | None = None) -> Study:
    """The study with another method: with the study's settings if it is its own, else with the usual ones.

    `proxy` is the study's proxy search, if it has one.
    """
    given: dict[str, Any] = {
        key: value for key, value in study.given.items() if key not in ("method", "proxy")
    }
    if name == "proxy":
        if study.file.proxy is None:
            raise InputError("method 'proxy': the study has no [proxy] section")
        given["proxy"] = study.given["proxy"]
    elif name in METHODS:
        if name == "fedtune" and study.file.proxy is not None:
            given["proxy"] = {"data": study.given["proxy"]["data"]}
        own = dict(study.given.get("method", {}))
        settings = own if own.pop("name", SHA.name) == name else {}
        usual = {"side_by_side": 1} if name in _ONE_BY_ONE else {}
        given["method"] = {"name": name, **usual, **settings}
    else:
        raise unknown_name("method", name, METHODS)
    if seed is not None:
        given["seed"] = seed
    return Study.from_dict(given, path=study.path)


def method_named(study: Study, name: str) -> Method:
    """A method for a table."""
    if name == "proxy":
        raise InputError("method 'proxy' needs two federations: a table is one")
    return with_method(study, name).method

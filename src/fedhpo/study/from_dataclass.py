"""Sections whose keys are the fields of a dataclass: what a method takes, the study file takes.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Halving:
...     rate: int = 3
>>> build(Halving, {"rate": 2}, "method")
Halving(rate=2)
>>> build(Halving, {"rate": "2"}, "method")
Traceback (most recent call last):
...
fedhpo.InputError: method.rate = '2': must be a whole number
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic import Field as Key
from pydantic.errors import PydanticInvalidForJsonSchema

from fedhpo.core.claims import FILLED_IN, refuse_unhonoured, refusing_later
from fedhpo.core.errors import InputError
from fedhpo.core.user_code import in_words
from fedhpo.study.problems import problems

T = TypeVar("T")


def section_of(kind: type[Any], name: str = "") -> type[BaseModel]:
    """A strict section with the fields of a dataclass that a file can hold.

    A field that may be another dataclass, or None, is a section inside the section.
    """
    hints = {key: _in_a_file(_sectioned(hint)) for key, hint in _hints(kind).items()}
    members: dict[str, Any] = {
        f.name: (hints[f.name], Key(_default(f), alias=f.name.rstrip("_")))
        for f in fields(kind)
        if f.init and FILLED_IN not in f.metadata and hints[f.name] is not None
    }
    # A field such as `from_` is the key `from`: Python keeps that word for itself.
    config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
    # The docstring, without its examples, is what the schema and the documentation show.
    about = (inspect.getdoc(kind) or "").partition(">>>")[0].strip()
    return create_model(name or kind.__name__, __config__=config, __doc__=about, **members)


def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types of a dataclass' fields."""
    try:
        return get_type_hints(kind)
    except Exception as error:  # annotations are code, and a user's may name what is not there
        name = f"{kind.__module__}:{kind.__qualname__}"
        raise InputError(f"{name}: the types of its fields cannot be read: {in_words(error)}") from error


def _inner(hint: Any) -> type[Any] | None:
    """The dataclass that a field may hold besides None."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    alone = isinstance(hint, UnionType) and len(kinds) == 1 and is_dataclass(kinds[0])
    return kinds[0] if alone else None


def _sectioned(hint: Any) -> Any:
    inner = _inner(hint)
    return hint if inner is None else section_of(inner) | None


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return ... if field.default is MISSING else field.default


def _in_a_file(hint: Any) -> Any:
    """The type of a field as a file can hold it: of a union, those members; None if there is none."""
    if _fits_a_file(hint):
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not NoneType and _fits_a_file(kind)]
    if not isinstance(hint, UnionType) or not kinds:
        return None
    return reduce(or_, [*kinds, NoneType] if NoneType in get_args(hint) else kinds)


def _fits_a_file(hint: Any) -> bool:
    """Whether a value of this type can stand in a study file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a union, what JSON cannot hold is only warned of
            TypeAdapter(hint).json_schema()
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, UserWarning):
        return False
    return True


def build(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """The dataclass with these values; errors name the key below `where`."""
    section = section_of(kind)
    values = {_field(kind, key): value for key, value in values.items()}
    try:
        # As JSON, because there a list is also what a tuple is written as.
        parsed = section.model_validate_json(
            json.dumps({key.rstrip("_"): value for key, value in values.items()})
        )
    except ValidationError as error:
        raise InputError("\n".join(problems(error, section, where))) from None
    hints = _hints(kind)
    given = {key: getattr(parsed, key) for key in values}
    for key, value in values.items():
        inner = _inner(hints[key])
        if inner is not None and value is not None:
            given[key] = build(inner, value, f"{where}.{key}")
    try:
        with refusing_later():
            made = kind(**given)
    except InputError as error:
        raise InputError(f"{_culprit(kind, given, where)}: {error}") from None
    except Exception as error:
        if kind.__module__.partition(".")[0] == "fedhpo":
            raise
        raise InputError(f"{where}: {kind.__qualname__} refused its settings: {in_words(error)}") from error
    refuse_unhonoured(made, where, values)
    return made


def _field(kind: type[Any], key: str) -> str:
    """The field that a key names."""
    return f"{key}_" if any(one.name == f"{key}_" for one in fields(kind)) else key


def _culprit(kind: type[Any], values: Mapping[str, Any], where: str) -> str:
    """The key that the dataclass refuses by itself, or the section, if it takes several to be wrong."""
    for key, value in values.items():
        try:
            kind(**{key: value})
        except InputError:
            return f"{where}.{key}"
        except Exception:  # the dataclass has required fields, or is a user's own
            continue
    return where

"""Pydantic's errors about a section, in fedhpo's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from fedhpo.core.errors import unknown_name
from fedhpo.core.phrasing import allowed, shown


def problems(error: ValidationError, model: type[BaseModel], where: str = "") -> list[str]:
    """One line for each key that is wrong: the key, what was found, what is allowed.

    >>> from pydantic import ConfigDict, Field
    >>> class Budget(BaseModel):
    ...     model_config = ConfigDict(extra="forbid", strict=True)
    ...     rounds: int = Field(ge=1)
    >>> try:
    ...     Budget(rounds="ten", total=4)
    ... except ValidationError as error:
    ...     print(*problems(error, Budget, "budget"), sep="\\n")
    budget.rounds = 'ten': must be a whole number of at least 1
    budget: unknown key 'total'; known: rounds
    """
    schema = model.model_json_schema(by_alias=True)
    lines: dict[str, str] = {}
    for one in error.errors():
        keys, found = _walk(schema, one["loc"])
        path = ".".join([where, *keys] if where else keys)
        if one["type"] == "extra_forbidden":
            parent, _, key = path.rpartition(".")
            known = found.get("properties", {})
            line = f"{parent + ': ' if parent else ''}{unknown_name('key', key, known)}"
        elif one["type"] == "missing":
            line = _missing(path, found)
        else:
            such = "".join(f", such as {example}" for example in found.get("examples", ()))
            line = f"{path} = {shown(one['input'])}: must be {allowed(found)}{such}"
        lines.setdefault(path, line)  # a union reports each of its members
    return list(lines.values())


def _walk(schema: Mapping[str, Any], loc: tuple[int | str, ...]) -> tuple[list[str], Mapping[str, Any]]:
    """The keys of `loc` that are keys of the file, and the schema at the last of them that has one.

    Of an unknown key that is the schema of the table it stands in.
    """
    keys: list[str] = []
    here = schema
    for part in loc:
        here = resolve(schema, here)
        properties = here.get("properties", {})
        if part in properties:
            here = properties[part]
        elif not properties:  # the rest of `loc` names members of a union
            break
        keys.append(str(part))
    return keys, resolve(schema, here)


def resolve(schema: Mapping[str, Any], here: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, where `here` only refers to one of the definitions, or to none at all."""
    tables = [one for one in here.get("anyOf", ()) if "$ref" in one]
    if len(tables) == 1:  # a section that may be left out
        here = tables[0]
    name = here.get("$ref", "").rpartition("/")[2]
    if not name:
        return here
    found: Mapping[str, Any] = schema["$defs"][name]
    return found


def _missing(path: str, schema: Mapping[str, Any]) -> str:
    if schema.get("type") == "object":
        return f"section [{path}] is missing"
    return f"{path} is missing: must be {allowed(schema)} ({schema.get('description', path)})"

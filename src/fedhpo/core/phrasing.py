"""Values and types as words, for messages and for the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN = {"string": "a string", "boolean": "true or false", "array": "a list", "object": "a table"}


def allowed(schema: Mapping[str, Any]) -> str:
    """What a JSON schema allows.

    >>> allowed({"type": "integer", "minimum": 1})
    'a whole number of at least 1'
    >>> allowed({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"type": "null"}]})
    'a number above 0 and at most 1'
    >>> allowed({"enum": ["size", "uniform"]})
    "'size' or 'uniform'"
    """
    if "enum" in schema:
        return _either([repr(value) for value in schema["enum"]])
    if "const" in schema:
        return repr(schema["const"])
    if "anyOf" in schema:
        # TOML has no null: what may be None is left out.
        return _either([allowed(one) for one in schema["anyOf"] if one.get("type") != "null"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(schema)
    if kind == "array" and "type" in schema.get("items", {}):
        return f"a list, each {allowed(schema['items'])}"
    return _PLAIN.get(str(kind), "any value")


def _bounds(schema: Mapping[str, Any]) -> str:
    parts = [
        f"{words} {schema[key]:g}"
        for key, words in (
            ("exclusiveMinimum", "above"),
            ("minimum", "of at least"),
            ("exclusiveMaximum", "below"),
            ("maximum", "at most"),
        )
        if key in schema
    ]
    return f" {' and '.join(parts)}" if parts else ""


def _either(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def shown(value: Any) -> str:
    """A value as it stands in a study file, shortened.

    >>> shown(True), shown("sha"), shown({"kind": "iid"})
    ('true', "'sha'", "{'kind': 'iid'}")
    """
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

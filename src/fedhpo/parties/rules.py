"""`ClientSide` rules as they arrive at a client: made from what `to_dict` wrote, by its `format`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedhpo.core.errors import unknown_name
from fedhpo.protocol.federation import ClientSide


def _reference_table(given: Mapping[str, Any]) -> ClientSide:
    from fedhpo.methods.fedtune.reference_table import ReferenceTable

    return ReferenceTable.from_dict(given)


#: Rules that clients know, by the `format` in what their `to_dict` writes; a client may add its own.
RULES: dict[str, Callable[[Mapping[str, Any]], ClientSide]] = {"fedhpo reference table 1": _reference_table}


def rule_of(given: Mapping[str, Any]) -> ClientSide:
    """The rule that a server sent."""
    kind = given.get("format")
    if kind not in RULES:
        raise unknown_name("rule", kind, RULES)
    return RULES[kind](given)

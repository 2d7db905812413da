"""The space of an app's study: names with dots, and the app's own values as defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.inspection import own_values
from fedhpo.space import dotted


def dotted_tables(tables: dict[str, Any], app: AppFile) -> dict[str, Any]:
    """Tables by scope, whose names may have dots, as the app's own have."""
    return {scope: dotted(given, app.config) for scope, given in tables.items()}


def with_app_defaults(tables: dict[str, Any], app: AppFile) -> dict[str, Any]:
    """A space's tables in which every hyperparameter has the app's own value as its default, if it is known.

    So the first trial is the app as it is, also where its value lies outside the range.
    """
    elsewhere = [
        key
        for scope, given in tables.items()
        for key in given
        if scope != "policy" and key not in app.config and isinstance(given[key], dict)
    ]
    return with_defaults(tables, {**app.config, **own_values(app, elsewhere)})


def with_defaults(tables: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in which hyperparameters have the values that are known of them as defaults."""
    return {
        scope: {
            key: _with_default(table, known[key]) if key in known else table for key, table in given.items()
        }
        if scope != "policy"
        else given
        for scope, given in tables.items()
    }


def _with_default(table: Any, value: Any) -> Any:
    if not isinstance(table, dict) or "default" in table or "value" in table:
        return table
    choices = table.get("choices", table.get("values"))
    if choices is not None:
        return {**table, "default": value} if value in choices else table
    low, high = table.get("low"), table.get("high")
    numbers = all(isinstance(one, int | float) for one in (low, high, value))
    if not numbers or isinstance(value, bool):
        return table
    whole = isinstance(low, int) and isinstance(high, int) and table.get("type") != "float"
    if not low <= value <= high:
        return {**table, "own": value} if isinstance(value, int) or not whole else table
    if whole:
        return {**table, "default": value} if isinstance(value, int) else table
    return {**table, "default": float(value)}


def check_app_space(tables: dict[str, Any]) -> None:
    """Refuse an app's study that tunes nothing."""
    if not any(isinstance(one, dict) for given in tables.values() for one in given.values()):
        raise InputError(
            "space has nothing to tune: write, say, [space.client] learning-rate = { low = 1e-3, high = 1.0, "
            "log = true }, a key of the app's run config"
        )

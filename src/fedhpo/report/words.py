"""Sentences that the page and the command line share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.report.numbers import number, score, signed


def gain_in_words(result: Mapping[str, Any]) -> str:
    """How much better than the user's own config, trial 0."""
    gain, best = result["gain"], result["best"]
    replaced = bool(result["trials"] and result["trials"][0].get("path"))
    if best is not None and best["trial"] == 0 and not replaced:
        return "none: your own config (trial 0) is the best found"
    if gain is None or gain["value"] is None:
        return "not known: your own config (trial 0) was not scored beside the winner"
    error = gain["standard_error"]
    spread = "" if error is None else f" ± {score(error)}"
    return f"{signed(gain['value'])}{spread} over your own config (trial 0), both at round {gain['round']}"


def test_score(metric: str, test: Mapping[str, Any]) -> tuple[str, float | None]:
    """The test score in the objective's metric, by name; regression has no accuracy.

    >>> test_score("error", {"accuracy": 0.75, "loss": 0.5})
    ('error', 0.25)
    """
    accuracy = test["accuracy"]
    if metric == "loss" or accuracy is None:
        return "loss", test["loss"]
    return metric, 1 - accuracy if metric == "error" else accuracy


def proxy_cost(proxy: Mapping[str, Any]) -> str:
    """What a search on proxy data took.

    >>> proxy_cost({"trials": 3, "cost": {"rounds": 12}, "data": "digits"})
    '3 trials, 12 rounds on digits, simulated by the server: no communication'
    """
    done = f"{proxy['trials']} trials, {proxy['cost']['rounds']} rounds on {proxy['data']}"
    return f"{done}, simulated by the server: no communication"


def config_in_words(config: Mapping[str, Mapping[str, Any]]) -> str:
    """All hyperparameters of a config on one line.

    >>> config_in_words({"client": {"lr": 0.1234567}, "server": {"lr": 1.0}})
    'client.lr 0.1235, server.lr 1'
    """
    return ", ".join(
        f"{scope}.{key} {number(v)}" for scope, values in config.items() for key, v in values.items()
    )

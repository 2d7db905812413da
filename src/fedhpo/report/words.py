"""Sentences that the page and the command line share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.report.numbers import number, score, signed, whole


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


def failures_in_words(failures: Sequence[Mapping[str, Any]], most: int = 5) -> list[str]:
    """A line for each reason why replies of clients could not be used, the most frequent first.

    >>> first = {"client": 7, "trial": 2, "round": 4}
    >>> failures_in_words([{"reason": "ValueError: bad (own.py:3, in train)", "during": "training",
    ...                     "count": 3, "clients": 1, "first": first}])
    ['3 replies of client 7 in training, first in trial 2, round 4: ValueError: bad (own.py:3, in train)']
    """
    lines = []
    for one in failures[:most]:
        first = one["first"]
        who = f"client {first['client']}" if one["clients"] == 1 else f"{whole(one['clients'])} clients"
        replies = "1 reply" if one["count"] == 1 else f"{whole(one['count'])} replies"
        when = {"training": "in training", "scoring": "in scoring", "query": "to a query"}[one["during"]]
        begun = [] if one["clients"] == 1 else [f"at client {first['client']}"]
        if first["trial"] is not None:
            begun.append(f"in trial {first['trial']}, round {first['round']}")
        when += f", first {' '.join(begun)}" if begun else ""
        lines.append(f"{replies} of {who} {when}: {one['reason']}")
    if len(failures) > most:
        lines.append(f"and {len(failures) - most} more reasons: see result.json")
    return lines


def config_in_words(config: Mapping[str, Mapping[str, Any]]) -> str:
    """All hyperparameters of a config on one line.

    >>> config_in_words({"client": {"lr": 0.1234567}, "server": {"lr": 1.0}})
    'client.lr 0.1235, server.lr 1'
    """
    return ", ".join(
        f"{scope}.{key} {number(v)}" for scope, values in config.items() for key, v in values.items()
    )

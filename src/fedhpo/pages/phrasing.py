"""Sentences that the page and the command line share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.pages.numbers import number, whole


def metric_in_words(objective: Mapping[str, Any]) -> str:
    """The metric by its name, and what a learner's loss is.

    >>> metric_in_words({"metric": "loss", "loss_is": "1 - r2"})
    'loss (1 - r2)'
    """
    known = objective.get("loss_is")
    return f"{objective['metric']} ({known})" if known else str(objective["metric"])


def test_score(metric: str, test: Mapping[str, Any]) -> tuple[str, float | None]:
    """The test score in the objective's metric, by name; regression has no accuracy.

    >>> test_score("error", {"accuracy": 0.75, "loss": 0.5})
    ('error', 0.25)
    """
    if test.get("value") is not None:
        return metric, test["value"]
    accuracy = test["accuracy"]  # as version 0.1.0 wrote it
    if metric == "loss" or accuracy is None:
        return "loss", test["loss"]
    return metric, 1 - accuracy if metric == "error" else accuracy


def rounds_of(cost: Mapping[str, Any]) -> tuple[int, int]:
    """Rounds of the search, which the budget pays for, and those more that trained the user's own config.

    >>> rounds_of({"rounds": 400, "baseline_rounds": 20, "all_rounds": 420})
    (400, 20)
    >>> rounds_of({"rounds": 420, "baseline_rounds": 20})  # as version 0.1.0 wrote it: both together
    (400, 20)
    """
    own = int(cost.get("baseline_rounds") or 0)
    return int(cost["rounds"]) - (0 if "all_rounds" in cost else own), own


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


def best_of_noisy(result: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether a config's score was chosen as the best of several with private noise, which flatters it."""
    private, best = (result.get("privacy") or {}).get("mechanism") == "laplace", result["best"]
    return private and shown["trial"] == best["trial"] and len(result["trials"]) > 1

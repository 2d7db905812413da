"""What came of a run, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.report.numbers import duration, megabytes, number, score
from fedhpo.report.words import failures_in_words, gain_in_words, proxy_cost, test_score


def summary(result: Mapping[str, Any], path: Path, report: Path) -> str:
    """The tuned config, what it is worth, the gain, the cost, and where everything is."""
    rows = [*_scores(result), *_cost(result), *_failures(result)]
    rows += [("run", str(path)), ("report", str(report))]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _scores(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    best = result["best"]
    if best is None:
        return [("tuned config", "none yet: no trial was scored")]
    rows = [("tuned config", f"trial {best['trial']} of {len(result['trials'])}, {best['rounds']} rounds")]
    for scope, values in best["config"].items():
        rows += [(f"  {scope}.{key}", number(value)) for key, value in values.items()]
    metric, found = result["objective"]["metric"], best["validation"]
    if found is not None:
        rows.append((f"validation {metric}", f"{score(found['value'])} at {found['clients']} clients"))
    if best["test"] is not None:
        name, value = test_score(metric, best["test"])
        rows.append((f"test {name}", f"{score(value)} at {best['test']['clients']} clients"))
    return [*rows, ("gain", gain_in_words(result))]


def _cost(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost = result["cost"]
    own = cost.get("baseline_rounds", 0)
    words = f"{cost['rounds'] - own} of {cost['budget']['rounds']} rounds, "
    words += f"{own} more for your own config, " if own else ""
    words += f"{cost['client_rounds']} client-rounds, "
    words += f"{megabytes(cost['bytes_down'])} down, {megabytes(cost['bytes_up'])} up"
    rows = [("cost", words), ("time", duration(result["times"]["wall_seconds"]))]
    return rows if result.get("proxy") is None else [("proxy search", proxy_cost(result["proxy"])), *rows]


def _failures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What failed at clients, however little it was."""
    lines = failures_in_words(result.get("failures", ()))
    return [("failures" if place == 0 else "", line) for place, line in enumerate(lines)]

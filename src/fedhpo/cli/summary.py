"""What came of a run, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.pages.numbers import duration, megabytes, number, score
from fedhpo.pages.phrasing import (
    best_of_noisy,
    failures_in_words,
    metric_in_words,
    proxy_cost,
    rounds_of,
    test_score,
)
from fedhpo.protocol.objective import scored_as
from fedhpo.search.verdict import verdict_of


def summary(result: Mapping[str, Any], path: Path, report: Path) -> str:
    """The tuned config, what it is worth, the gain, the cost, and where everything is."""
    rows = [*_scores(result), *_cost(result), *_failures(result)]
    rows += [("run", str(path)), ("report", str(report))]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _scores(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    tuned = result["best"]
    if tuned is None:
        return [("tuned config", "none yet: no trial was scored")]
    rows = [*_config("tuned config", tuned, f"trial {tuned['trial']} of {len(result['trials'])}")]
    rows += _worth(result, tuned)
    rows += _several(result, tuned)
    verdict, own = verdict_of(result), result["baseline"]
    rows.append(("gain", verdict.text))
    if verdict.use == "own" and own is not None and own["trial"] != tuned["trial"]:
        rows += [*_config("config to use", own, "your own"), *_worth(result, own)]
    return rows


def _config(name: str, shown: Mapping[str, Any], whose: str) -> list[tuple[str, str]]:
    values = [
        (f"  {scope}.{key}", number(v)) for scope, vs in shown["config"].items() for key, v in vs.items()
    ]
    return [(name, f"{whose}, {shown['rounds']} rounds"), *values]


def _worth(result: Mapping[str, Any], shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Scores of a config, and where they come from."""
    kind = scored_as(result["objective"])
    rows, metric, found = [], metric_in_words(result["objective"]), shown["validation"]
    if found is not None:
        error = f" ± {score(found['standard_error'])}" if found.get("standard_error") else ""
        apart = "from" in result["objective"] and found["clients"] == 1
        where = f" at {found['clients']} clients" if found["clients"] and not apart else ""
        flattered = ", the best of noisy scores" if best_of_noisy(result, shown) else ""
        rows.append((f"{kind} {metric}", f"{score(found['value'])}{error}{where}{flattered}"))
    others = {
        name: value
        for name, value in (shown.get("metrics") or {}).items()
        if name not in ("accuracy", "loss", result["objective"]["metric"])
    }
    rows += [(f"{kind} {name}", score(value)) for name, value in others.items()]
    if "from" in result["objective"]:
        rows.append(("scored by", result["objective"]["metric_is"]))
    if shown["test"] is not None:
        name, value = test_score(result["objective"]["metric"], shown["test"])
        rows.append((f"test {name}", f"{score(value)} at {shown['test']['clients']} clients"))
    return rows


def _several(result: Mapping[str, Any], tuned: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Further objectives of the tuned config, its constraints, and the Pareto set."""
    names = [one["name"] for one in result.get("objectives", ())]
    rows = [(name, number(tuned["objectives"].get(name))) for name in names[1:]]
    for text, value in tuned.get("constraints", {}).items():
        rows.append((text, number(value)))
    if tuned.get("violation"):
        rows.append(("constraints", "broken: no trial keeps all of them"))
    if len(names) > 1:
        rows.append(
            ("pareto set", f"trials {', '.join(map(str, result['pareto'])) or 'none'}: see the report")
        )
    return rows


def _cost(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost = result["cost"]
    searched, own = rounds_of(cost)
    words = f"{searched} of {cost['budget']['rounds']} rounds, "
    words += f"{own} more for your own config, " if own else ""
    words += _earlier(cost)
    words += f"{cost['client_rounds']} client-rounds, "
    words += f"{megabytes(cost['bytes_down'])} down, {megabytes(cost['bytes_up'])} up"
    noted = [
        ("note", line)
        for line in (result.get("note"), *result.get("bounds", ()), *result.get("said", ()))
        if line
    ]
    noted += [("trust", result["trust"])] if result.get("trust") else []
    if copies := (result.get("privacy") or {}).get("copies"):
        noted.append(("privacy", copies))
    rows = [*noted, ("cost", words), ("time", duration(result["times"]["wall_seconds"]))]
    if cost.get("simulated_seconds"):
        rows.append(("simulated time", duration(cost["simulated_seconds"])))
    if parties := (result.get("flora") or {}).get("parties"):
        sent = [party["pairs"] for party in parties if party["pairs"]]
        rows.insert(0, ("local searches", f"{len(sent)} parties sent {sum(sent)} configs and their losses"))
    return rows if result.get("proxy") is None else [("proxy search", proxy_cost(result["proxy"])), *rows]


def _failures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What failed at clients, however little it was."""
    lines = failures_in_words(result.get("failures", ()))
    return [("failures" if place == 0 else "", line) for place, line in enumerate(lines)]


def _earlier(cost: Mapping[str, Any]) -> str:
    """What comparisons and test scores took before the total was raised; they were done anew since."""
    earlier = cost.get("earlier_conclusions")
    if earlier is None:
        return ""
    rounds = f"{earlier['rounds']} rounds and " if earlier["rounds"] else ""
    return f"{rounds}{earlier['evaluations']} evaluations for comparisons before the total was raised, "

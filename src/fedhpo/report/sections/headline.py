"""The result: four answers first, then the config to use and its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.html import Section, facts, text
from fedhpo.pages.numbers import number, score
from fedhpo.pages.phrasing import best_of_noisy, metric_in_words, test_score
from fedhpo.protocol.objective import scored_as
from fedhpo.report.answers import answers
from fedhpo.search.verdict import verdict_of


def headline(view: RunView) -> Section:
    """The verdict in words, four answers, and the config to use."""
    result, best = view.result, view.result["best"]
    cards = "".join(one.render() for one in answers(view))
    body = f"<p class=answer>{text(answer(view))}</p><div class=cards>{cards}</div>"
    if best is None:
        return Section("Result", body)
    config = _config("Tuned config", _whose(view), best["config"], _scores(view))
    if verdict_of(result).use == "own" and result.get("baseline") and best["trial"] != view.own:
        config = _config("Config to use", "your own", result["baseline"]["config"], []) + config
    notes = "".join(f"<p class=note>{text(note)}.</p>" for note in result.get("bounds", ()))
    return Section("Result", f"{body}\n{config}{notes}")


def answer(view: RunView) -> str:
    """What came of it in one sentence, without figures: these stand in the answers."""
    running = view.result["status"] == "running"
    if view.result["best"] is None:
        return "No trial was scored yet."
    kind = verdict_of(view.result).kind
    if kind == "no improvement":
        return "Your own config leads so far." if running else "No improvement: keep your config."
    if kind == "improved":
        return "Better than your own config so far." if running else "Improved: use the tuned config."
    if kind == "not certain":
        return "Ahead of your own config, not certain yet." if running else "The tuned config may be better."
    return "The search is under way." if running else "A config was found; what it gains is not known."


def _whose(view: RunView) -> str:
    best = view.result["best"]
    rounds = f"after {best['rounds']} rounds"
    return f"your own, {rounds}" if best["trial"] == view.own else f"trial {best['trial']}, {rounds}"


def _scores(view: RunView) -> list[tuple[str, str]]:
    """Validation and test score; a second figure that is the same is not shown twice."""
    best, metric = view.result["best"], metric_in_words(view.result["objective"])
    validation = best["validation"]
    error = validation["standard_error"]
    shown = score(validation["value"])
    flattered = ", the best of noisy scores" if best_of_noisy(view.result, best) else ""
    found = [
        (
            f"{scored_as(view.result['objective'])} {metric}",
            f"{shown}{f' ± {score(error)}' if error else ''}{flattered}",
        )
    ]
    if best["test"] is not None:
        name, value = test_score(view.metric, best["test"])
        found.append((f"test {name}", "the same" if score(value) == shown else score(value)))
    return found


def _config(
    title: str, note: str, config: Mapping[str, Mapping[str, Any]], scores: list[tuple[str, str]]
) -> str:
    rows = [(f"{scope}.{k}", number(v)) for scope, values in config.items() for k, v in values.items()]
    return f"<h3>{title} <span>{text(note)}</span></h3>{facts([*scores, *rows])}"

"""Several runs on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo import figures
from fedhpo.core.errors import InputError, NothingToDrawError
from fedhpo.figures.view import RunView
from fedhpo.pages.configs import flat
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, table
from fedhpo.pages.numbers import duration, megabytes, number, score, signed, whole
from fedhpo.pages.phrasing import rounds_of, test_score
from fedhpo.search.verdict import verdict_of

_GAINS = "A dot is the gain over your own config, its bar two standard errors; the table has verdicts."
_NOTE = (
    "<p class=note>The leading trial is the one to name at that moment: of those trained longest, the best. "
    "Where its score is worse than that of the one before, a cross says why.</p>"
)


def comparison(views: Sequence[RunView]) -> list[Section]:
    """Results side by side, incumbents against the budget, and the tuned configs."""
    first = views[0]
    for view in views:
        if view.metric != first.metric:
            raise InputError(
                f"runs to compare must have one objective: {first.name} has {first.metric}, "
                f"{view.name} has {view.metric}"
            )
    curves = drawn(figures.leading(views), "incumbents", "At equal rounds: over all trials of the search.")
    curves += drawn(figures.leading(views, "bytes"), "traffic", "At equal bytes: sent to clients and back.")
    try:
        gained: Section | None = Section("Gains", drawn(figures.gains(views), "gains", _GAINS))
    except NothingToDrawError:
        gained = None
    made = [
        Section("Results", _results(views)),
        Section("Score of the leading trial", f"<div class=pair>{curves}</div>{_NOTE}"),
        gained,
        Section("Tuned configs", _configs(views)),
    ]
    return [section for section in made if section is not None]


def _results(views: Sequence[RunView]) -> str:
    metric = f"validation {views[0].metric}"
    columns = [
        "run",
        "method",
        "seed",
        metric,
        f"test {views[0].metric}",
        "gain",
        "",
        "rounds",
        "down",
        "up",
        "time",
        "status",
    ]
    rows = []
    for view in views:
        result, best, cost = view.result, view.result["best"] or {}, view.result["cost"]
        value = (best.get("validation") or {}).get("value")
        test = test_score(view.metric, best["test"])[1] if best.get("test") else None
        gain, verdict = result["gain"] or {}, verdict_of(result)
        searched, _ = rounds_of(cost)
        seconds = result["times"]["wall_seconds"]
        rows.append(
            [
                Cell(view.name),
                Cell(result["method"]["name"]),
                Cell(str(result["seed"]), result["seed"]),
                Cell(score(value), "" if value is None else value),
                Cell(score(test), "" if test is None else test),
                _gain(gain),
                Cell(verdict.kind if verdict.use == "tuned" else "keep your config"),
                Cell(whole(searched), searched),
                Cell(megabytes(cost["bytes_down"]), cost["bytes_down"]),
                Cell(megabytes(cost["bytes_up"]), cost["bytes_up"]),
                Cell(duration(seconds), seconds),
                Cell(result["status"]),
            ]
        )
    note = "Rounds are those of the search; traffic and time are of all that was done."
    return table(columns, rows, numeric=[c for c in columns[2:-1] if c]) + f"<p class=note>{note}</p>"


def _gain(gain: Mapping[str, Any]) -> Cell:
    value, error = gain.get("value"), gain.get("standard_error")
    if value is None:
        return Cell("–", "")
    return Cell(signed(value) + ("" if error is None else f" ± {score(error)}"), value)


def _configs(views: Sequence[RunView]) -> str:
    configs = [flat(view.result["best"]["config"]) if view.result["best"] else {} for view in views]
    names = list(dict.fromkeys(name for config in configs for name in config))
    columns = [view.name for view in views]
    rows = [[Cell(name), *(Cell(number(config.get(name))) for config in configs)] for name in names]
    marks = ["differs" if len({str(config.get(name)) for config in configs}) > 1 else "" for name in names]
    return table(["hyperparameter", *columns], rows, numeric=columns, marks=marks)

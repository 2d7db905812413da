"""Several runs on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.pages.configs import flat
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, table
from fedhpo.pages.numbers import duration, megabytes, number, score, signed, whole
from fedhpo.pages.phrasing import rounds_of, test_score
from fedhpo.report.sections.curves import by_budget
from fedhpo.report.view import RunView
from fedhpo.tuning.verdict import verdict_of

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
    figure = drawn(by_budget(list(views)), "incumbents")
    return [
        Section("Results", _results(views)),
        Section("Score of the leading trial against rounds spent", figure + _NOTE),
        Section("Tuned configs", _configs(views)),
    ]


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
                Cell(verdict.kind if verdict.use == "tuned" else f"{verdict.kind}: keep your config"),
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
    rows = [
        [Cell(view.name), *(Cell(number(config.get(name))) for name in names)]
        for view, config in zip(views, configs, strict=True)
    ]
    return table(["run", *names], rows, numeric=names)

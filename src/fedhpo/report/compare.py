"""Several runs on one page."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpo.errors import InputError
from fedhpo.report.figure import drawn
from fedhpo.report.html import Cell, Section, table
from fedhpo.report.numbers import duration, megabytes, number, score, whole
from fedhpo.report.sections.curves import by_budget
from fedhpo.report.sections.trials import flat
from fedhpo.report.view import RunView
from fedhpo.report.words import test_score


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
        Section("Best score against rounds spent", figure),
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
        gain = (result["gain"] or {}).get("value")
        seconds = result["times"]["wall_seconds"]
        rows.append(
            [
                Cell(view.name),
                Cell(result["method"]["name"]),
                Cell(str(result["seed"]), result["seed"]),
                Cell(score(value), "" if value is None else value),
                Cell(score(test), "" if test is None else test),
                Cell(score(gain), "" if gain is None else gain),
                Cell(whole(cost["rounds"]), cost["rounds"]),
                Cell(megabytes(cost["bytes_down"]), cost["bytes_down"]),
                Cell(megabytes(cost["bytes_up"]), cost["bytes_up"]),
                Cell(duration(seconds), seconds),
                Cell(result["status"]),
            ]
        )
    return table(columns, rows, numeric=columns[2:-1])


def _configs(views: Sequence[RunView]) -> str:
    configs = [flat(view.result["best"]["config"]) if view.result["best"] else {} for view in views]
    names = list(dict.fromkeys(name for config in configs for name in config))
    rows = [
        [Cell(view.name), *(Cell(number(config.get(name))) for name in names)]
        for view, config in zip(views, configs, strict=True)
    ]
    return table(["run", *names], rows, numeric=names)

"""Several runs on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.pages.configs import flat
from fedhpo.pages.figure import MUTED, SEVERAL, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import duration, megabytes, number, score, signed, whole
from fedhpo.pages.phrasing import rounds_of, test_score
from fedhpo.report.sections.curves import by_budget, score_axis
from fedhpo.report.view import RunView
from fedhpo.tuning.verdict import verdict_of

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
    curves = drawn(by_budget(list(views)), "incumbents", "At equal rounds: over all trials of the search.")
    curves += drawn(by_traffic(views), "traffic", "At equal bytes: sent to clients and back.")
    gained = gains(views)
    made = [
        Section("Results", _results(views)),
        Section("Score of the leading trial", f"<div class=pair>{curves}</div>{_NOTE}"),
        Section("Gains", drawn(gained, "gains", _GAINS)) if gained else None,
        Section("Tuned configs", _configs(views)),
    ]
    return [section for section in made if section is not None]


def by_traffic(views: Sequence[RunView]) -> dict[str, Any]:
    """The score of the leading trial against the megabytes sent; one line a run."""
    traces = []
    for i, view in enumerate(views):
        found = view.incumbents_by("bytes_down", "bytes_up")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [one.spent / 1e6 for one in found],
                "y": [one.value for one in found],
                "name": text(view.name),
                "line": {"shape": "hv", "color": SEVERAL[i % len(SEVERAL)], "width": 2},
                "marker": {"size": 6},
                "hovertemplate": "%{x:.4g} MB: %{y:.4f}<extra></extra>",
            }
        )
    return figure(traces, axis("MB sent, both ways", rangemode="tozero"), score_axis(views[0]), height=300)


def gains(views: Sequence[RunView]) -> dict[str, Any] | None:
    """The gain of each run over the user's own config, with two standard errors; None where none is known."""
    known = [(i, view, view.result["gain"]) for i, view in enumerate(views) if view.result["gain"]]
    known = [(i, view, gain) for i, view, gain in known if gain["value"] is not None]
    if not known:
        return None
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [gain["value"]],
            "y": [text(view.name)],
            "error_x": {"array": [2 * (gain["standard_error"] or 0)], "thickness": 2, "width": 5},
            "marker": {"size": 10, "color": SEVERAL[i % len(SEVERAL)]},
            "hovertemplate": "%{y}: %{x:+.4f}<extra></extra>",
        }
        for i, view, gain in known
    ]
    zero = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper"}
    line = {**zero, "line": {"color": MUTED, "width": 1, "dash": "dot"}}
    y = axis("", autorange="reversed", ticks="")
    x = axis(f"gain in {views[0].metric}")
    return figure(traces, x, y, height=110 + 32 * len(known), showlegend=False, shapes=[line])


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

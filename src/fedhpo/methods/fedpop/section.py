"""Who was copied from whom, when, and which hyperparameters each trial had over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.pages.configs import flat, scale_of, tuned
from fedhpo.pages.figure import OTHER, WINNER, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table
from fedhpo.pages.numbers import number, score

if TYPE_CHECKING:
    from fedhpo.report.view import RunView

#: A stretch of a trial's life under one config: trial, first round, last round, config, copied from.
Stretch = tuple[int, int, int, Mapping[str, Any], int | None]


def lineage(view: RunView) -> Section | None:
    """A tree, a small figure for each hyperparameter, and all copies; None where no trial was copied."""
    if not any(trial.get("path") for trial in view.result["trials"]):
        return None
    line = ancestry(view)
    small = "".join(
        drawn(over_time(view, name, settings, line), f"over-time-{i}")
        for i, (name, settings) in enumerate(tuned(view))
    )
    note = (
        "<p class=note>A trial that lost an exchange goes on as a perturbed copy of a better one. The line "
        "that ends in the winner is drawn in its colour.</p>"
    )
    tree = drawn(family(view, line), "lineage")
    return Section("Lineage", f"{tree}<div class=small>{small}</div>{note}{_copies(view)}")


def stretches(view: RunView) -> list[Stretch]:
    """All trials' lives, in pieces."""
    found: list[Stretch] = []
    for trial in view.result["trials"]:
        path = trial.get("path") or [{"round": 0, "source": None, "config": trial["config"]}]
        ends = [*(step["left"] for step in path[1:]), trial["rounds"]]
        for step, end in zip(path, ends, strict=True):
            found.append(
                (trial["trial"], step["round"], max(end, step["round"]), step["config"], step["source"])
            )
    return found


def ancestry(view: RunView) -> list[tuple[int, int, int]]:
    """The line that ends in the winner, youngest first: trial, from which round, to which.

    >>> from fedhpo.report.view import RunView
    >>> copied = {"round": 5, "source": 1, "source_step": 0, "left": 5, "config": {}}
    >>> a = [{"round": 0, "source": None, "config": {}}, copied]
    >>> trials = [{"trial": 0, "rounds": 9, "config": {}, "path": a}, {"trial": 1, "rounds": 9, "config": {}}]
    >>> ancestry(RunView("", {}, {}, {"best": {"trial": 0}, "trials": trials}, []))
    [(0, 5, 9), (1, 0, 5)]
    """
    paths = {
        trial["trial"]: trial.get("path") or [{"round": 0, "source": None}] for trial in view.result["trials"]
    }
    rounds = {trial["trial"]: trial["rounds"] for trial in view.result["trials"]}
    line: list[tuple[int, int, int]] = []
    trial = view.winner
    end = rounds.get(trial, 0) if trial is not None else 0
    place = -1
    while trial is not None:
        step = paths[trial][place]
        line.append((trial, step["round"], end))
        trial, end, place = step["source"], step["round"], step.get("source_step", 0)
    return line


def family(view: RunView, line: list[tuple[int, int, int]]) -> dict[str, Any]:
    """A row for each trial, and an arrow for each copy."""
    traces = []
    for trial, begin, end, _, source in stretches(view):
        if source is not None:
            mine = (trial, begin) in {(one, start) for one, start, _ in line}
            traces.append(_line([begin, begin], [source, trial], WINNER if mine else OTHER, 1.5))
        traces.append(_line([begin, end], [trial, trial], OTHER, 2))
    traces += [_line([begin, end], [trial, trial], WINNER, 3) for trial, begin, end in line]
    copies = [(begin, trial, source) for trial, begin, _, _, source in stretches(view) if source is not None]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [begin for begin, _, _ in copies],
            "y": [trial for _, trial, _ in copies],
            "text": [
                f"round {begin}: trial {trial} copied trial {source}" for begin, trial, source in copies
            ],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"color": "#ffffff", "size": 7, "line": {"color": WINNER, "width": 1.5}},
        }
    )
    height = 140 + 22 * len(view.result["trials"])
    y = axis("trial", dtick=1, autorange="reversed")
    return figure(traces, axis("round", rangemode="tozero"), y, height=height, showlegend=False)


def over_time(
    view: RunView, name: str, settings: Mapping[str, Any], line: list[tuple[int, int, int]]
) -> dict[str, Any]:
    """One hyperparameter of every trial by round."""
    kind, more = scale_of(settings)
    winning = {(trial, begin): end for trial, begin, end in line}
    traces = []
    for trial, begin, end, config, _ in stretches(view):
        value = flat(config).get(name)
        if value is None:
            continue
        shown = str(value) if kind == "category" else value
        traces.append(_line([begin, end], [shown, shown], OTHER, 1.5))
        if (trial, begin) in winning:
            traces.append(_line([begin, winning[trial, begin]], [shown, shown], WINNER, 3))
    traces.sort(key=lambda trace: bool(trace["line"]["color"] == WINNER))
    margin = {"l": 48, "r": 8, "t": 8, "b": 40}
    return figure(
        traces, axis("round"), axis(name, type=kind, **more), height=230, showlegend=False, margin=margin
    )


def _line(x: list[Any], y: list[Any], colour: str, width: float) -> dict[str, Any]:
    line = {"color": colour, "width": width}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"}


def _copies(view: RunView) -> str:
    rows = sorted(
        (
            (step["round"], trial["trial"], step)
            for trial in view.result["trials"]
            for step in (trial.get("path") or [])[1:]
        ),
        key=lambda row: row[:2],
    )
    names = list(dict.fromkeys(name for *_, step in rows for name in flat(step["config"])))
    columns = ["round", "trial", "copied from", "judged at", "source judged at", *names]
    cells = [
        [
            Cell(str(begin), begin),
            Cell(str(trial), trial),
            Cell(str(step["source"]), step["source"]),
            Cell(step.get("reason") or score(step["score"]), _key(step["score"])),
            Cell(score(step["source_score"]), _key(step["source_score"])),
            *(Cell(number(flat(step["config"]).get(name))) for name in names),
        ]
        for begin, trial, step in rows
    ]
    return table(columns, cells, numeric=columns)


def _key(value: float | None) -> float | str:
    return "" if value is None else value

"""Who was copied from whom, for the report: a tree, each hyperparameter over time, and all copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.figures.lineage import Trials, lineage, over_time
from fedhpo.pages.configs import flat
from fedhpo.protocol.sections import figure, section, table
from fedhpo.search.trial import path_of

if TYPE_CHECKING:
    from fedhpo.search.search import Search

#: Copies listed at most.
_MOST = 500
_NOTE = (
    "A trial that lost an exchange goes on as a perturbed copy of a better one. The line that ends in the "
    "winner is drawn in its colour."
)


def trials_of(search: Search) -> list[dict[str, Any]]:
    """The trials with their paths, as result.json lists them."""
    return [
        {
            "trial": one.number,
            "rounds": one.round,
            "config": one.config.to_dict(),
            "path": path_of(one),
        }
        for one in search.trials
    ]


def lineage_sections(
    trials: Trials, winner: int | None, space: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A tree, a small figure for each hyperparameter, and all copies; nothing where no trial was copied."""
    if not any(trial.get("path") for trial in trials):
        return []
    named = [
        (f"{scope}.{key}", settings)
        for scope, tables in sorted(space.items())
        for key, settings in sorted(tables.items())
        if isinstance(settings, Mapping) and "value" not in settings
    ]
    figures = [lineage(trials, winner), *(over_time(trials, winner, one) for one in named)]
    return [
        section("Lineage", *(figure(one["data"], one["layout"]) for one in figures), _NOTE, _copies(trials))
    ]


def _copies(trials: Trials) -> dict[str, Any]:
    rows = sorted(
        ((step["round"], trial["trial"], step) for trial in trials for step in (trial.get("path") or [])[1:]),
        key=lambda row: row[:2],
    )
    names = list(dict.fromkeys(name for *_, step in rows for name in flat(step["config"])))
    columns = ["round", "trial", "copied from", "judged at", "source judged at", *names]
    cells = [
        [
            begin,
            trial,
            step["source"],
            step.get("reason") or step.get("score"),
            step.get("source_score"),
            *(_cell(flat(step["config"]).get(name)) for name in names),
        ]
        for begin, trial, step in rows
    ]
    return table(columns, cells[:_MOST])


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

"""The bench's page, in Markdown and in HTML, and its data in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import finite
from fedhpo.pages.page import frame
from fedhpo_papers.bench.estimates import LEAST_PARTS
from fedhpo_papers.bench.leaderboard import (
    EXACT_BEHIND,
    EXACT_GOAL,
    GOAL,
    GOAL_BOUND,
    Ranking,
    against_best,
    costs,
    ranking,
    taken_away,
)
from fedhpo_papers.bench.results import DEGENERATE, Results
from fedhpo_papers.bench.settings import TRAININGS
from fedhpo_papers.shared import svg

_TITLE = "Methods under noise"
_STYLE = """
svg { width: 100%; height: auto; display: block; }
.legend span { margin-right: 16px; white-space: nowrap; font-size: 13px; }
.legend i { display: inline-block; width: 16px; margin-right: 5px; vertical-align: middle; }
.small { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); }
"""
#: A panel of curves shows no more methods than there are colours.
_DRAWN = 7


def write(facts: Mapping[str, Any], results: Results, output: str | Path) -> dict[str, str]:
    """Write page, figures and data beside each other; `output` is the path of the page in Markdown."""
    path, kinds = Path(output), {name: one["kind"] for name, one in facts["methods"].items()}
    groups = kept_apart(facts, results)
    best = [against_best(one, kinds, where) for one, where in groups]
    parts = [taken_away(one, kinds, where) for one, where in groups]
    overall = [ranking(one, f"All settings{where}", one.settings) for one, where in groups]
    first = groups[0][0]
    each = [ranking(first, setting, [setting]) for setting in first.settings]
    spent = costs(first, first.settings)
    data = {
        **facts,
        "reference": results.reference,
        "overall": {one.title: one.data for one in overall},
        "against_best": {one.title: one.data for one in best},
        "taken_away": {one.title: one.data for one in parts},
        "by_setting": {one.title: one.data for one in each},
        "costs": spent.data,
        "refused": [{"method": m, "reason": why, "settings": where} for m, why, where in results.refused],
    }
    shown = [*best, *(one for one in parts if one.rows), *overall, *each, spent]
    contents = {
        path: markdown(facts, results, shown),
        path.with_suffix(".html"): _html(facts, results, shown),
        path.with_suffix(".json"): json.dumps(finite(data), separators=(",", ":")) + "\n",
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write the page {path}: {error.strerror or error}") from None
    return dict(zip(("page", "figures", "data"), map(str, contents), strict=True))


def kept_apart(facts: Mapping[str, Any], results: Results) -> list[tuple[Results, str]]:
    """The tables that nothing was tried on before, then the others; all where none are named.

    Lists of single settings are about the first of these.
    """
    test = [table for table in results.tables if table in facts["test"]]
    others = [table for table in results.tables if table not in test]
    if not test or not others:
        return [(results, "")]
    return [
        (replace(results, tables=test), ", on test tables"),
        (replace(results, tables=others), ", on tables it was developed on"),
    ]


def preface(facts: Mapping[str, Any], results: Results) -> list[str]:
    """What the figures are, in sentences."""
    test = ", ".join(table for table in results.tables if table in facts["test"])
    return [
        f"Tables {', '.join(results.tables)}{f' (test tables: {test})' if test else ''}; every method gets "
        f"{TRAININGS} full trainings. Suite {facts['suite']}, code {facts['code']}.",
        f"There are up to {facts['seeds']} seeds; how many a method has is in the column seeds, table by "
        "table where they differ. Two methods are compared by the seeds that both have, ranks are over the "
        "seeds that all methods of a list have; mean regrets are over all seeds of a method, so that those "
        "of methods with different seeds are of different samples.",
        *([facts["note"]] if facts["note"] else []),
        "Regret is the true error of the recommended config, over all validation clients of the sample, "
        "minus that of the best config after full training, in points; unseen clients are those that the "
        "sample leaves out. Every two seeds play on a sample of their own, three quarters of the table's "
        "configs and clients. The error behind ± is one standard error of a bootstrap of whole samples, from "
        f"{LEAST_PARTS} of them on. It is conditional on the table: it covers luck and the samples, not "
        "other configs and clients. Bounds of ratios over tables take the table as unit (Student's t); "
        f"{', '.join(DEGENERATE)}, where nearly all configs are equally good, is part of no such verdict.",
        f"Differences are to {results.reference}, seed by seed; their intervals hold all together with 95% "
        "confidence, and * marks those without 0. The ratio is the geometric mean over tables of the regret "
        f"divided by that of {results.reference}, 0.01 points added to both.",
        "The best other method is chosen in hindsight, which favours it, the more the fewer seeds it has; "
        f"the bound is one-sided. The goal is a ratio of at most {GOAL:g} with a bound below {GOAL_BOUND:g}; "
        f"where scores are exact, at most {EXACT_GOAL:g}, or {EXACT_BEHIND:g} points behind.",
        "A message is one client that trains in one round, or scores one trial. Lists of single settings and "
        "of costs are about the test tables, where there are any.",
    ]


def markdown(facts: Mapping[str, Any], results: Results, tables: list[Ranking]) -> str:
    """The page as Markdown."""
    parts = [f"# {_TITLE}", *preface(facts, results)]
    for one in tables:
        parts.append(f"## {one.title}")
        parts.append(_pipes(one) if one.rows else "No method has cells under all of these settings.")
    names = [f"- `{name}`: {one['about']}" for name, one in facts["methods"].items()]
    parts += ["## The methods", "\n".join(names)]
    if results.refused:
        lines = [f"- `{m}` ({', '.join(where)}): {why}" for m, why, where in results.refused]
        parts += ["## What a table cannot replay", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _pipes(one: Ranking) -> str:
    lines = [one.columns, ["---"] * len(one.columns), *one.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _html(facts: Mapping[str, Any], results: Results, tables: list[Ranking]) -> str:
    about = "".join(f"<p>{text(line)}</p>" for line in preface(facts, results))
    sections = [Section("What this is", about)]
    for one in tables:
        curves = _curves(results, one) if one.title in results.settings else ""
        sections.append(Section(one.title, _table(one) + curves))
    if results.refused:
        lines = "".join(
            f"<li>{text(m)} ({text(', '.join(where))}): {text(why)}</li>" for m, why, where in results.refused
        )
        sections.append(Section("What a table cannot replay", f"<ul>{lines}</ul>"))
    subtitle = f"{len(results.methods)} methods, {len(results.tables)} tables, {facts['seeds']} seeds"
    return frame(_TITLE, subtitle, sections, static=True, style=_STYLE)


def _table(one: Ranking) -> str:
    rows = [[Cell(shown) for shown in row] for row in one.rows]
    return table(one.columns, rows, numeric=one.columns[1:])


def _curves(results: Results, one: Ranking) -> str:
    """Regret against the budget, of the best few methods."""
    methods = [row[0] for row in one.rows][:_DRAWN]
    panels = []
    for name in results.tables:
        series = {method: results.curve(name, one.title, method) for method in methods}
        series = {method: line for method, line in series.items() if line}
        if series:
            panels.append(svg.lines(name, series, methods, "share of the budget", "regret, points"))
    note = (
        "<p class=note>Medians and quartiles over seeds; a line begins where every seed has an incumbent.</p>"
    )
    return f"{svg.legend(methods)}<div class=small>{''.join(panels)}</div>{note}" if panels else ""

"""The observations beside our figures: a page in Markdown, the figures in HTML, and the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.pages.html import Section
from fedhpo_papers.noisy_eval.advice import misses
from fedhpo_papers.noisy_eval.claims import enough
from fedhpo_papers.noisy_eval.figures import Curves, Dots, Point
from fedhpo_papers.noisy_eval.methods import REMEDIES
from fedhpo_papers.noisy_eval.rules import MARGIN, points
from fedhpo_papers.shared import svg
from fedhpo_papers.shared import verdicts as _verdicts
from fedhpo_papers.shared.pages import VERDICTS, publish, side_by_side, static
from fedhpo_papers.shared.papers import Paper
from fedhpo_papers.shared.tables import markdown
from fedhpo_papers.shared.verdicts import Verdict

PAPER = Paper(
    "Noisy evaluation",
    "Kuo et al. (2023), On noisy evaluation in federated hyperparameter tuning",
    "Scores in federated learning come from a few clients, who differ, take part unevenly and may add "
    "noise for privacy. The paper asks what that does to tuning: it trains many configs once, replays "
    "random search, TPE, Hyperband and BOHB on the recorded scores under each kind of noise, and makes "
    "eight observations, the best known of which is that with much noise random search on public proxy "
    "data beats them all.",
    "Here the same was done on tables of recorded curves that come with fedhpo, listed below: smaller "
    "models, fewer clients, and 81 rounds in place of 405. Nothing is trained.",
)
_CODE = (
    "The code beside the paper takes the config with the lowest noisy score at any rung, even the first, "
    "cuts scores to [0, 1] after noise was added, adds the noise of a choice of the best 10 at a bracket's "
    "last rung, and counts two thirds of a bracket's first rung, so that its Hyperband trains more than it "
    "is charged for. A variant of its own, not among the claims above, which go by configs that were trained "
    "to the end."
)
_FACTS = ("name", "data", "model", "configs", "rounds", "validation_clients", "failed_configs")


def write(
    found: dict[str, Any],
    figures: Sequence[Curves | Dots],
    advice: list[dict[str, Any]],
    verdicts: list[Verdict],
    by_their_code: list[Verdict],
    out: Path | None,
) -> dict[str, Any]:
    """Write noisy-eval.md, .html and .json if there is an `out`; all of it comes back."""
    notes = {figure.number: said for figure in figures if (said := _notes(figure))}
    data = found | {
        "notes": notes,
        "verdicts": [verdict.to_dict() for verdict in verdicts],
        "verdicts_by_their_code": [verdict.to_dict() for verdict in by_their_code],
        "plots": [figure.to_dict() for figure in figures],
        "advice": advice,
    }
    return publish_data(data, figures, out)


def publish_data(data: dict[str, Any], figures: Sequence[Curves | Dots], out: Path | None) -> dict[str, Any]:
    """Write the pages of what is in the data."""
    verdicts, by_their_code = (
        [Verdict(**one) for one in data[name]] for name in ("verdicts", "verdicts_by_their_code")
    )
    page = markdown_page(data, figures, data["advice"], verdicts, by_their_code)
    return publish("noisy-eval", data, page, out, html_page(data, figures, verdicts, page), verdicts)


# Markdown


def markdown_page(
    found: Mapping[str, Any],
    figures: Sequence[Curves | Dots],
    advice: list[dict[str, Any]],
    verdicts: list[Verdict],
    by_their_code: list[Verdict],
) -> str:
    """Verdicts, then each figure as a table."""
    facts = [[table[key] for key in _FACTS] for table in found["tables"]]
    columns = ["table", *(key.replace("_", " ") for key in _FACTS[1:])]
    parts = [
        f"# {PAPER.title}",
        *PAPER.opening(verdicts),
        VERDICTS,
        _verdicts.table(verdicts),
        "## How it was run",
        f"Made by `fedhpo reproduce noisy-eval --scale {found['scale']}` in "
        f"{found['seconds']:.0f} s; the plots are in the HTML file beside this page.",
        f"Errors in percent over all validation clients: median (quartiles) of {found['bootstraps']:,} "
        "simulated searches of random search (16 different configs out of the table's) and Hyperband, or of "
        f"{found['seeds']} replays of TPE and BOHB. Budgets are 16 full trainings.",
        "Differences in verdicts are means ± standard errors in points. The errors are those of a delete-d "
        f"jackknife over configs and clients: {found['parts']} parts of each table, three quarters of both, "
        f"{found['part_bootstraps']} simulated searches and {found['part_seeds']} replays in each; what the "
        "searches' own chance adds is taken off there, and added once. Two standard errors decide, "
        f'"no worse" allows {MARGIN:g} point, "hardly better than random" is less than a tenth of the gain '
        "without noise. Verdicts are about configs and clients like these, and about these data sets.",
        markdown(columns, facts),
    ]
    if by_their_code:
        parts += ["## Observation 6 by the rules of the authors' code", _CODE, _verdicts.table(by_their_code)]
    for figure in figures:
        parts += [f"## {figure.heading}", *_described(figure), *found["notes"].get(figure.number, ())]
    if advice:
        parts += ["## Advice, checked", *_advised(advice)]
    return "\n\n".join(parts) + "\n"


def _described(figure: Curves | Dots) -> list[str]:
    """A table for each panel."""
    if isinstance(figure, Dots):
        rows = [[name, figure.summary[name]] for name in figure.panels]
        return [markdown(["panel", figure.summary_title], rows)]
    if not isinstance(figure.points[0].x, str) and len({p.x for p in figure.points}) > 10:
        return [_ends(figure)]
    columns = list(dict.fromkeys(p.x for p in figure.points))
    rows = [
        [table, series, *(_cell(figure, table, series, x) for x in columns)]
        for table, series in _lines(figure)
    ]
    return [markdown(["table", figure.x_title, *map(str, columns)], rows)]


def _lines(figure: Curves) -> list[tuple[str, str]]:
    return [
        (table, series) for table in figure.tables for series in figure.series if figure.of(table, series)
    ]


def _ends(figure: Curves) -> str:
    """Of a long x-axis the first place, one at a third of it and the last; each table has its own."""
    rows = []
    for table, series in _lines(figure):
        xs = sorted(float(p.x) for p in figure.of(table, series))
        third = min(xs, key=lambda x: abs(x - xs[-1] / 3))
        rows.append(
            [table, series, *(f"{x:g}: {_cell(figure, table, series, x)}" for x in (xs[0], third, xs[-1]))]
        )
    return markdown(["table", figure.x_title, "first", "at a third", "last"], rows)


def _notes(figure: Curves | Dots) -> list[str]:
    """A figure's notes that need single searches."""
    if figure.number == "3" and isinstance(figure, Curves):
        near = ", ".join(f"{enough(figure, table)} on {table}" for table in figure.tables)
        return [f"No worse than asking all clients, by {MARGIN:g} point: {near} (paper: about 100)."]
    if figure.number == "remedies, HB" and isinstance(figure, Curves):
        return [_gains(figure)]
    return []


def _cell(figure: Curves, table: str, series: str, x: float | str) -> str:
    own = [point for point in figure.of(table, series) if point.x == x]
    return _quartiles(own[0]) if own else "–"


def _quartiles(point: Point) -> str:
    low, middle, high = point.quartiles
    return f"{middle:.1f} ({low:.1f}–{high:.1f})"


def _gains(figure: Curves) -> str:
    """What each remedy gains, seed by seed."""
    plain, *others = REMEDIES
    rows = [
        [table, p.x, name, gain.signed]
        for table in figure.tables
        for name in others
        for p in figure.of(table, name)
        for gain in [points(figure.errors(table, plain, p.x), p.errors)]
    ]
    return "Gain in points over the paper's evaluation, seed by seed:\n\n" + markdown(
        ["table", "clients", "remedy", "gain"], rows
    )


def _advised(advice: list[dict[str, Any]]) -> list[str]:
    rows = [
        [
            row["table"],
            "inf" if row["epsilon"] is None else f"{row['epsilon']:g}",
            row["clients"],
            *(row[by]["near"] for by in ("measured", "predicted", "piloted")),
            *(100 * row[by]["regret"] for by in ("measured", "predicted", "piloted")),
        ]
        for row in advice
    ]
    columns = ["table", "epsilon", "clients", "near: measured", "predicted", "by a pilot"]
    return [
        "The probability that the config ranked first is within 1 point of the best of 16 (`near`), and how "
        "much worse it is on average (regret, in points): as selection on the table comes to, as predicted "
        "from all of the table, and as predicted from a pilot of 8 configs after a twentieth of a training.",
        f"Mean distance of `near` from what was measured: {misses(advice, 'predicted'):.3f} from all of the "
        f"table, {misses(advice, 'piloted'):.3f} by the pilot.",
        markdown([*columns, "regret: measured", "predicted ", "by a pilot "], rows),
    ]


# HTML


def html_page(
    found: Mapping[str, Any], figures: Sequence[Curves | Dots], verdicts: list[Verdict], page: str = ""
) -> str:
    """Every figure, static, in one file."""
    replays = f"{found['bootstraps']:,} searches or {found['seeds']} replays"
    subtitle = f"{PAPER.source}. Medians and quartiles of {replays}."
    return static(PAPER.title, subtitle, verdicts, [Section(f.heading, _drawn(f)) for f in figures], page)


def _drawn(figure: Curves | Dots) -> str:
    """The panels side by side."""
    if isinstance(figure, Dots):
        panels = [svg.dots(name, dots, *figure.axes[name]) for name, dots in figure.panels.items()]
        return side_by_side(panels)
    panels = []
    for table in figure.tables:
        own = {series: figure.of(table, series) for series in figure.series if figure.of(table, series)}
        if isinstance(figure.points[0].x, str):
            marks = {s: {str(p.x): p.quartiles for p in line} for s, line in own.items()}
            panels.append(svg.bars(table, marks, figure.x_title))
        else:
            curves = {s: [(float(p.x), *p.quartiles) for p in line] for s, line in own.items()}
            panels.append(svg.lines(table, curves, figure.series, figure.x_title, log=figure.log))
    return side_by_side(panels, figure.series)

"""FedPop's tables beside the paper's: a page in Markdown; beside it the curves in HTML, and the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.pages.html import Section
from fedhpo_papers.fedpop.claims import Rows, judge
from fedhpo_papers.fedpop.paper import TABLE_1, TABLE_2, TABLE_3, TABLE_4
from fedhpo_papers.fedpop.sets import JUDGED, OPTIMISERS
from fedhpo_papers.shared import svg as _svg
from fedhpo_papers.shared import verdicts as _verdicts
from fedhpo_papers.shared.pages import VERDICTS, publish, side_by_side, static
from fedhpo_papers.shared.papers import Paper
from fedhpo_papers.shared.tables import markdown

_TUNINGS = ("none", "fedex", "fedpop")
PAPER = Paper(
    "FedPop",
    "Chen et al. (2025), FedPop: federated population-based hyperparameter tuning",
    "FedPop tunes the hyperparameters of clients and server while models train. A population of models "
    "trains side by side; the worst become changed copies of the best, and inside each model the clients "
    "of a round try values of their own. The paper compares it with FedEx and with no tuning on the way, "
    "under random search and under successive halving, on seven benchmarks, and reports it ahead on all "
    "of them.",
    "Here smaller models and budgets were run over a few paired seeds: differences are to be read within "
    "this page, and cannot tell a lead of a point or two.",
)
_CHOSEN_LATER = (
    "Chosen after results had been seen: a first default scale (24 rows a client on CIFAR-10 and FEMNIST, "
    "60 rounds on Shakespeare) was run on CIFAR-10, FEMNIST and a part of Shakespeare, and given up. There, "
    "over 3 seeds, FedPop was ahead of random search on the three CIFAR-10 sets (+0.6, +4.6, +4.4 points), "
    "behind it on FEMNIST (-6.4, -11.5), and behind SHA alone on all five (-8.9, -7.9, -11.2, -4.1, -7.9). "
    "More rows, more rounds on Shakespeare, more seeds with FedAdam and FedYogi, a second set for the server "
    "optimisers, and their claims by fine-tuned accuracy came after that: read these as suggestions, not as "
    "tests."
)


def write(found: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """Judge, and write fedpop.md, .html and .json if there is an `out`; the verdicts come back."""
    rows = Rows(found["rows"])
    verdicts = judge(rows)
    page = text(found, rows, verdicts)
    figures = html(found, rows, verdicts, page)
    found = {**found, "verdicts": [verdict.to_dict() for verdict in verdicts]}
    return publish("fedpop", found, page, out, figures, verdicts)


def text(found: dict[str, Any], rows: Rows, verdicts: list[_verdicts.Verdict]) -> str:
    """The page in Markdown."""
    parts = [f"# {PAPER.title}", *PAPER.opening(verdicts)]
    if verdicts:
        parts += [VERDICTS, _verdicts.table(verdicts)]
    parts += [
        "## How it was run",
        f"Made by `fedhpo reproduce fedpop --scale {found['scale']}`. Test accuracy in percent, mean ± "
        f"standard deviation over {found['seeds']} paired seeds (twice as many with FedAdam and FedYogi), "
        "of the global and (in brackets) of the fine-tuned model; here / paper. In the verdicts ± is one "
        "standard error of the paired differences, and a claim holds, or does not, by two of them; with "
        "so few seeds, a claim for which one case is enough may hold by chance. Budgets and models are "
        "smaller than the paper's unless the scale is `paper`, so that figures are to be compared within "
        "a column.",
        markdown(["set", "run here"], list(found["sets"].items())),
    ]
    if found["scale"] == "cnn":
        parts.append(_CHOSEN_LATER)
    for title, table in (
        ("Table 1: distinct vectors tried", _table_1(rows)),
        ("Table 2: benchmarks", _table_2(rows)),
        ("Table 3: PACS, under SHA", _table_3(rows)),
        ("Table 4: the two halves, under RS", _table_4(rows)),
        ("Figure 5: the test score of each round's clients", _figure_5(rows)),
        ("Server optimisers, under RS", _optimisers(rows)),
        ("Beyond the paper: judged by fresh evaluations, and few rows at a client", _judged(rows)),
    ):
        parts += [f"## {title}", table] if table else []
    return "\n\n".join(parts) + "\n"


def spread(values: list[float]) -> str:
    """Mean and standard deviation.

    >>> spread([1.0, 3.0]), spread([])
    ('2.00 ± 1.41', '–')
    """
    if not values:
        return "–"
    deviation = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{deviation}"


def _pair(rows: Rows, set: str, wrapper: str, tuning: str, **which: str) -> str:
    whole, tuned = (
        spread(list(rows.values(set, wrapper, tuning, what=what, **which).values()))
        for what in ("accuracy", "fine_tuned")
    )
    return f"{whole} ({tuned})"


def _published(figure: tuple[float, ...] | None) -> str:
    if figure is None:
        return "–"
    tuned = f" ({figure[2]:.2f} ± {figure[3]:.2f})" if len(figure) > 2 else ""
    return f"{figure[0]:.2f} ± {figure[1]:.2f}{tuned}"


def _table_1(rows: Rows) -> str:
    lines = []
    for s in rows.sets:
        for wrapper in ("rs", "sha"):
            for tuning in _TUNINGS:
                if rows.has(s, wrapper, tuning):
                    here = [
                        spread([float(v) for v in rows.values(s, wrapper, tuning, what).values()])
                        for what in ("server", "client")
                    ]
                    paper = (
                        TABLE_1.get((wrapper, tuning), ("–", "–")) if s.startswith("cifar") else ("–", "–")
                    )
                    lines.append([s, wrapper.upper(), tuning, *here, *paper])
    columns = ["set", "wrapper", "tuning", "server", "client", "server (paper)", "client (paper)"]
    return markdown(columns, lines) if lines else ""


def _table_2(rows: Rows) -> str:
    lines = []
    for wrapper in ("rs", "sha"):
        for tuning in _TUNINGS:
            cells = [
                f"{_pair(rows, s, wrapper, tuning)} / {_published(TABLE_2[wrapper, tuning].get(s))}"
                for s in rows.sets
            ]
            if any(rows.has(s, wrapper, tuning) for s in rows.sets):
                lines.append([wrapper.upper(), tuning, *cells])
    return markdown(["wrapper", "tuning", *rows.sets], lines) if lines else ""


def _table_3(rows: Rows) -> str:
    lines = [
        [tuning, _pair(rows, "pacs", "sha", tuning), _published(TABLE_3[tuning])]
        for tuning in _TUNINGS
        if rows.has("pacs", "sha", tuning)
    ]
    return markdown(["tuning", "here", "paper"], lines) if lines else ""


def _table_4(rows: Rows) -> str:
    sets = [s for s in rows.sets if rows.has(s, "rs", *TABLE_4)]
    lines = [
        [t, *(f"{_pair(rows, s, 'rs', t)} / {_published(TABLE_4[t].get(s))}" for s in sets)] for t in TABLE_4
    ]
    return markdown(["tuning", *sets], lines) if sets else ""


def _figure_5(rows: Rows) -> str:
    tunings = [t for t in (*_TUNINGS, "central") if rows.has("figure5", "rs", t)]
    lines = [[t, spread(list(rows.values("figure5", "rs", t).values()))] for t in tunings]
    note = "\n\nTest accuracy over all clients at the end; the curves are in the figures."
    return markdown(["tuning", "test accuracy at the end"], lines) + note if lines else ""


def _optimisers(rows: Rows) -> str:
    lines = [
        [o, s, _pair(rows, s, "rs", "none", optimiser=o), _pair(rows, s, "rs", "fedpop", optimiser=o)]
        for o in OPTIMISERS
        for s in rows.sets
        if rows.has(s, "rs", "none", "fedpop", optimiser=o)
    ]
    return markdown(["optimiser", "set", "random search", "FedPop"], lines) if lines else ""


def _judged(rows: Rows) -> str:
    lines = [
        [s, w.upper(), *(_pair(rows, s, w, t) for t in ("none", "fedpop", "fedpop-judged"))]
        for s in JUDGED
        for w in ("rs", "sha")
        if rows.has(s, w, "fedpop-judged")
    ]
    columns = ["set", "wrapper", "no tuning on the way", "FedPop", 'FedPop with `judge = "evaluation"`']
    return markdown(columns, lines) if lines else ""


def html(found: dict[str, Any], rows: Rows, verdicts: list[_verdicts.Verdict], page: str = "") -> str:
    """Table 2 and Figure 5 as figures."""
    sections = []
    for what, words in (("accuracy", "global model"), ("fine_tuned", "fine-tuned models")):
        panels = [_benchmark(rows, s, what) for s in rows.sets if rows.has(s, "rs", *_TUNINGS)]
        if panels:
            sections.append(Section(f"Table 2: {words}", side_by_side(panels, _TUNINGS)))
    return static(PAPER.title, f"scale {found['scale']}", verdicts, [*sections, *_curves(rows)], page)


def _benchmark(rows: Rows, set: str, what: str) -> str:
    """Means with standard deviations, by tuning and wrapper."""
    marks = {}
    for tuning in _TUNINGS:
        wrappers = [w for w in ("rs", "sha") if rows.has(set, w, tuning)]
        points = {w: _svg.banded(0, list(rows.values(set, w, tuning, what).values())) for w in wrappers}
        marks[tuning] = {w.upper(): (low, middle, high) for w, (_, low, middle, high) in points.items()}
    return _svg.bars(set, marks, "wrapper", "test accuracy in %")


def _curves(rows: Rows) -> list[Section]:
    """Figure 5; seeds are averaged round by round, centralised training is a level."""
    series = {}
    for tuning in _TUNINGS:
        curves = [dict(c) for c in rows.values("figure5", "rs", tuning, "curve").values() if c]
        if curves:
            rounds = sorted(set.intersection(*(set(curve) for curve in curves)))
            series[tuning] = [_svg.banded(x, [curve[x] for curve in curves]) for x in rounds]
    level = list(rows.values("figure5", "rs", "central").values())
    if not (series and level):
        return []
    line = next(iter(series.values()))
    series["centralised"] = [_svg.banded(x, level) for x in (line[0][0], line[-1][0])]
    panel = _svg.lines("CIFAR-10", series, list(series), "round", "test accuracy in %")
    return [Section("Figure 5: the round's clients", side_by_side([panel], list(series)))]

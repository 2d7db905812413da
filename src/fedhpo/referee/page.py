"""A campaign as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.pages.figure import SEVERAL, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, facts, how_to_read, table, text
from fedhpo.pages.numbers import number, score, signed
from fedhpo.pages.page import frame
from fedhpo.referee.evidence import evidence_path
from fedhpo.referee.rules import Rules
from fedhpo.referee.verdict import differences, final_in_words


def write_page(head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], output: str | Path) -> Path:
    """Write the page and return where it is."""
    output = Path(output)
    try:
        output.write_text(page(head, lines), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write the page {output}: {error.strerror or error}") from None
    return output


def page(head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML."""
    verdicts = {one["proposal"]: one["facts"] for one in lines if one["event"] == "verdict"}
    count = sum(one["event"] == "proposal" for one in lines)
    sections = [
        _rules(head, lines),
        _proposals(head, lines, verdicts),
        _evidence(head, lines),
        _pairs(head, lines),
    ]
    subtitle = f"base {head['base']['name']} · {head['metric']} · {count} proposals"
    return frame("Campaign", subtitle, sections)


def _rules(head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Section:
    rules, judges, last = head["rules"], head["judges"], head["kept_back"]
    most = rules["proposals"]
    kept_at = (
        f"{Rules(**rules).threshold(1):g}"
        if most is not None
        else f"j (j + 1) / {rules['alpha']:g}, for the j-th"
    )
    rows = [
        ("alpha of the whole campaign", f"{rules['alpha']:g}"),
        ("proposals declared", "without end" if most is None else str(most)),
        ("kept at evidence", kept_at),
        ("improvement worth having", number(rules["least"])),
        ("clients that judge", "not known one by one" if judges is None else str(len(judges))),
        ("clients kept for the end", str(len(last or ()))),
    ]
    final = next((one for one in lines if one["event"] == "final"), None)
    told = "" if final is None else f"<p>{text(final_in_words(final))}</p>"
    note = how_to_read(
        "One alpha bounds the chance that any proposal of the campaign is kept although it is no better than "
        "its base, however often one looks. It assumes that the differences of a proposal that is no better "
        "are symmetric.",
        "Verdicts hold for the validation clients that the campaign uses again.",
    )
    return Section("Rules", facts(rows) + told + note)


def _proposals(
    head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], verdicts: Mapping[int, Mapping[str, Any]]
) -> Section:
    columns = [
        "proposal",
        "candidate",
        "base",
        "verdict",
        "difference",
        "95% interval",
        "worst tenth",
        "evidence",
        "pairs",
        "bytes",
        "digest",
    ]
    rows = []
    for one in (line for line in lines if line["event"] == "proposal"):
        found = verdicts.get(one["proposal"])
        first = [
            Cell(str(one["proposal"]), one["proposal"]),
            Cell(one["candidate"]["name"]),
            Cell(one["base"]["name"]),
        ]
        digest = Cell(one["candidate"]["digest"][:12])
        if found is None:
            rows.append([*first, Cell("under way"), *[Cell("–")] * 6, digest])
            continue
        low, high = found["difference"]["interval"]
        mean, tail, ratio = found["difference"]["mean"], found["tail"], found["cost"]["bytes"]["ratio"]
        rows.append(
            [
                *first,
                Cell(found["verdict"]),
                Cell("–" if mean is None else signed(mean), mean),
                Cell("–" if low is None else f"{signed(low)} to {signed(high)}", low),
                Cell("–" if tail is None else signed(tail["mean"]), None if tail is None else tail["mean"]),
                Cell(f"{found['evidence']:.3g}", found["evidence"]),
                Cell(str(found["pairs"]), found["pairs"]),
                Cell("–" if ratio is None else f"{ratio:.3f} x", ratio),
                digest,
            ]
        )
    note = (
        "The difference of a keep comes from pairs trained after the decision. That of a drop comes from the "
        "pairs that decided."
    )
    notes = dict.fromkeys([note, *(one for found in verdicts.values() for one in found["notes"])])
    told = "".join(f"<p class=note>{text(one)}</p>" for one in notes)
    return Section("Proposals", table(columns, rows, numeric=columns[4:10]) + told)


def _paths(head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """The differences of each proposal's pairs up to its decision."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for one in lines:
        if one["event"] == "pair" and not one["after"]:
            found.setdefault(one["proposal"], []).append(one)
    return {key: differences(pairs, "score", head["maximise"]) for key, pairs in found.items()}


def _evidence(head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Section:
    traces = []
    rules = Rules(**head["rules"])
    for place, (proposal, values) in enumerate(_paths(head, lines).items()):
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"proposal {proposal}, kept at {rules.threshold(proposal):g}",
                "x": list(range(1, len(values) + 1)),
                "y": [max(one, 1e-9) for one in evidence_path(values).tolist()],
                "line": {"color": SEVERAL[place % len(SEVERAL)]},
                "hovertemplate": "pair %{x}: evidence %{y:.3g}<extra></extra>",
            }
        )
    drawing = figure(traces, axis("pairs", rangemode="tozero"), axis("evidence", type="log"), height=380)
    return Section("Evidence", drawn(drawing, "evidence"))


def _pairs(head: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Section:
    columns = ["proposal", "pair", "seed", "base", "candidate", "difference", "after the decision"]
    sign, rows = (1 if head["maximise"] else -1), []
    for one in (line for line in lines if line["event"] == "pair"):
        ours, theirs = one["base"].get("score"), one["candidate"].get("score")
        gap = None if ours is None or theirs is None else sign * (theirs - ours)
        rows.append(
            [
                Cell(str(one["proposal"]), one["proposal"]),
                Cell(str(one["pair"] + 1), one["pair"]),
                Cell(str(one["seed"])),
                Cell(score(ours), ours),
                Cell(
                    score(theirs) if theirs is not None else one["candidate"].get("failed", "–")[:80], theirs
                ),
                Cell("–" if gap is None else signed(gap), gap),
                Cell("yes" if one["after"] else "no"),
            ]
        )
    return Section("Every pair", table(columns, rows, numeric=columns[:6], filtered=True))

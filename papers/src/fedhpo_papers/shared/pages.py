"""What a reproduction leaves behind, all of it small: a page in Markdown, data in JSON, figures in HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedhpo.pages.html import Section, text
from fedhpo.pages.numbers import finite
from fedhpo.pages.page import frame
from fedhpo_papers.shared import svg as _svg
from fedhpo_papers.shared.forest import Estimate, forest, picture
from fedhpo_papers.shared.from_markdown import folded, paragraph
from fedhpo_papers.shared.from_markdown import sections as rest
from fedhpo_papers.shared.runs import page_name
from fedhpo_papers.shared.verdicts import DOES_NOT, HOLDS, Verdict

#: The heading under which the verdicts of a page stand; tables after it are folded.
VERDICTS = "## Verdicts"
_STYLE = """
svg { width: 100%; height: auto; display: block; }
svg.forest { max-width: 560px; }
.legend span { margin-right: 16px; white-space: nowrap; font-size: 13px; }
.legend i { display: inline-block; width: 16px; margin-right: 5px; vertical-align: middle; }
.small { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); }
.claim { border-top: 1px solid var(--rule); padding: 12px 0 10px; }
.claim p { margin: 0 0 4px; }
.claim b { display: inline-block; min-width: 108px; }
.claim b.holds { color: var(--winner); }
.claim b.fails { color: var(--bad); }
.claim b.open { color: var(--muted); }
.claim .told { color: var(--muted); font-size: 13px; overflow-wrap: anywhere; }
.key { color: var(--muted); font-size: 13px; }
summary { cursor: pointer; color: var(--muted); }
"""
_KEY = (
    "A dot is the difference measured, its line two standard errors to either side, or its interval of 95% "
    "where the verdict has one; blue is above zero, "
    "orange below, grey open. A diamond is the paper's figure, where it gives one. An arrow: the line "
    "goes on."
)


def publish(
    name: str,
    found: dict[str, Any],
    page: str,
    out: str | Path | None,
    figures: str | None = None,
    verdicts: Sequence[Verdict] = (),
) -> dict[str, Any]:
    """Write them into `out`, if there is one; `found` comes back with the text and where it was written.

    The verdicts that are differences are drawn
    in a picture of their own, which the page shows.

    >>> publish("paper", {"scale": "default", "rows": []}, "# A paper", None)
    {'scale': 'default', 'rows': [], 'text': '# A paper'}
    """
    page = folded(page, VERDICTS)
    if out is None:
        return {**found, "text": page}
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    file = page_name(name, found["scale"])
    data = json.dumps(finite(found), separators=(",", ":")) + "\n"
    contents = {"data": (".json", data)}
    if figures is not None:
        contents["figures"] = (".html", figures)
    if drawn := _drawn(verdicts):
        contents["picture"] = (".svg", picture(drawn))
        shown = f"![The differences of each claim, with intervals]({file}.svg)\n\n{_KEY}\n\n## "
        head, verdict_part, rest = page.partition(VERDICTS)
        page = head + verdict_part + rest.replace("## ", shown, 1)
    contents["page"] = (".md", page)
    for ending, content in contents.values():
        (folder / f"{file}{ending}").write_text(content, encoding="utf-8")
    written = {what: str(folder / f"{file}{ending}") for what, (ending, _) in contents.items()}
    return {**found, **written, "text": page}


def _drawn(verdicts: Sequence[Verdict]) -> dict[str, list[Estimate]]:
    """Differences in several cases, by claim; `mnist: It wins` and `imdb: It wins` are two cases of one."""
    plots: dict[str, list[Estimate]] = {}
    for verdict in verdicts:
        case, colon, claim = verdict.claim.partition(": ")
        found = verdict.estimates
        if colon and len(found) == 1:
            plots.setdefault(claim, []).append(replace(found[0], name=case))
        elif found:
            plots[verdict.claim] = found
    return {claim: found for claim, found in plots.items() if len(found) > 1}


def static(
    title: str, subtitle: str, verdicts: Sequence[Verdict], sections: Sequence[Section], page: str = ""
) -> str:
    """The page as one file of HTML with nothing to run: its prose, verdicts, these figures, folded tables."""
    opening = [block for block in page.partition(VERDICTS)[0].split("\n\n")[1:] if block]
    first = [Section("In short", "".join(map(paragraph, opening)))] if opening else []
    if verdicts:
        first.append(Section("Verdicts", f"<p class=key>{_KEY}</p>{''.join(map(_claim, verdicts))}"))
    return frame(title, subtitle, [*first, *sections, *rest(page, VERDICTS)], static=True, style=_STYLE)


def _claim(verdict: Verdict) -> str:
    """A claim: the verdict, what the paper says, what was measured."""
    kind = {HOLDS: "holds", DOES_NOT: "fails"}.get(verdict.verdict, "open")
    found = verdict.estimates
    told = f"Paper: {text(verdict.paper)}." + ("" if found else f" Here: {text(verdict.here)}.")
    return (
        f"<div class=claim><p><b class={kind}>{text(verdict.verdict)}</b> {text(verdict.claim)}</p>"
        f"<p class=told>{told}</p>{forest(found, verdict.claim) if found else ''}</div>"
    )


def side_by_side(panels: Sequence[str], series: Sequence[str] = ()) -> str:
    """Panels of `_svg`, below the names of what they show if that is several."""
    return f"{_svg.legend(series) if series else ''}<div class=small>{''.join(panels)}</div>"

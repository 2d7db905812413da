"""What a reproduction leaves behind, all of it small: a page in Markdown, data in JSON, figures in HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedhpo.pages import svg as _svg
from fedhpo.pages.html import Section, text
from fedhpo.pages.numbers import finite
from fedhpo.pages.page import frame
from fedhpo.reproduce.shared.verdicts import Verdict

_STYLE = """
svg { width: 100%; height: auto; display: block; }
.legend span { margin-right: 16px; white-space: nowrap; font-size: 13px; }
.legend i { display: inline-block; width: 16px; margin-right: 5px; vertical-align: middle; }
.small { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); }
"""


def publish(
    name: str, found: dict[str, Any], page: str, out: str | Path | None, figures: str | None = None
) -> dict[str, Any]:
    """Write them into `out`, if there is one; `found` comes back with the text and where it was written.

    Any other scale than the default one is in the files' names.

    >>> publish("paper", {"scale": "default", "rows": []}, "# A paper", None)
    {'scale': 'default', 'rows': [], 'text': '# A paper'}
    """
    if out is None:
        return {**found, "text": page}
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    file = name if found["scale"] == "default" else f"{name}-{found['scale']}"
    data = json.dumps(finite(found), separators=(",", ":")) + "\n"
    contents = {"page": (".md", page), "data": (".json", data)}
    if figures is not None:
        contents["figures"] = (".html", figures)
    for ending, content in contents.values():
        (folder / f"{file}{ending}").write_text(content, encoding="utf-8")
    written = {what: str(folder / f"{file}{ending}") for what, (ending, _) in contents.items()}
    return {**found, **written, "text": page}


def static(title: str, subtitle: str, verdicts: Sequence[Verdict], sections: Sequence[Section]) -> str:
    """Verdicts and figures in one file, with nothing to run."""
    rows = "".join(
        f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in vars(verdict).values())}</tr>"
        for verdict in verdicts
    )
    head = "".join(f"<th>{name}</th>" for name in ("claim", "paper", "here", "verdict"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    first = [Section("Verdicts", table)] if verdicts else []
    return frame(title, subtitle, [*first, *sections], static=True, style=_STYLE)


def side_by_side(panels: Sequence[str], series: Sequence[str] = ()) -> str:
    """Panels of `_svg`, below the names of what they show if that is several."""
    return f"{_svg.legend(series) if series else ''}<div class=small>{''.join(panels)}</div>"

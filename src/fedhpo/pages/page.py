"""The frame of a page: it holds its own style and programs, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from fedhpo.core.version import VERSION
from fedhpo.pages.figure import plotly_js
from fedhpo.pages.html import Section, text

_THEME = '<button id=theme type=button title="light or dark" aria-label="light or dark">◐</button>'


def security_policy(programs: Sequence[str]) -> str:
    """The page's Content-Security-Policy: it loads nothing, and runs these programs and no other.

    So a name in a run's files could not become a program even if it were not escaped.

    >>> security_policy([])
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    """
    digests = [hashlib.sha256(program.encode()).digest() for program in programs]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    scripts = f"script-src {allowed}; " if allowed else ""
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; {scripts}{rest}"


def frame(
    title: str, subtitle: str, sections: Sequence[Section], *, static: bool = False, style: str = ""
) -> str:
    """The page around its sections; a `static` one has no program, and so no figures that need one."""
    here = files("fedhpo.pages")
    style = (here / "style.css").read_text(encoding="utf-8") + style
    first, last = [], []
    if not static:
        first = [plotly_js()]
        last = [(here / name).read_text(encoding="utf-8") for name in ("draw.js", "sort.js", "theme.js")]
    begin, end = ("".join(f"<script>{program}</script>\n" for program in some) for some in (first, last))
    body = "\n".join(section.render() for section in sections)
    theme = (
        ""
        if static
        else '<button id=theme type=button title="light or dark" aria-label="light or dark">◐</button>'
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{security_policy([*first, *last])}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)} · fedhpo</title>
<style>
{style}</style>
{begin}</head>
<body>
<header><h1>{text(title)}</h1><p>{text(subtitle)}</p>{theme}</header>
<main>
{body}
</main>
<footer>fedhpo {text(VERSION)}</footer>
{end}</body>
</html>
"""

"""The page: sections in a frame that holds its own style and programs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import fedhpo
from fedhpo.errors import InputError
from fedhpo.report.compare import comparison
from fedhpo.report.figure import plotly_js
from fedhpo.report.html import Section, text
from fedhpo.report.sections import SECTIONS
from fedhpo.report.view import RunView, load_view


def write_report(runs: Sequence[str | Path], output: str | Path) -> Path:
    """Write the report on a run, or the comparison of several, and return where it is."""
    output = Path(output)
    content = page([load_view(Path(run)) for run in runs])
    try:
        _write(output, content)
    except OSError as error:
        raise InputError(f"cannot write the report {output}: {error.strerror or error}") from None
    return output


def _write(output: Path, content: str) -> None:
    """Write aside, then rename: who is killed meanwhile leaves the old page, not half of the new one."""
    if output.exists() and not output.is_file():  # such as /dev/stdout
        output.write_text(content, encoding="utf-8")
        return
    aside = output.with_name(output.name + ".part")
    try:
        aside.write_text(content, encoding="utf-8")
        aside.replace(output)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def page(views: Sequence[RunView]) -> str:
    """The whole page as HTML."""
    if len(views) == 1:
        made = (section(views[0]) for section in SECTIONS)
        return frame(views[0].name, subtitle(views[0]), [one for one in made if one is not None])
    return frame("Comparison", f"{len(views)} runs", comparison(views))


def subtitle(view: RunView) -> str:
    """Method, data and state on one line."""
    federation = view.facts["federation"] or {}
    data = federation.get("data", "")
    clients = f"{federation['clients']} clients" if "clients" in federation else ""
    parts = [view.result["method"]["name"], data, clients, view.result["status"]]
    return " · ".join(str(part) for part in parts if part)


def frame(
    title: str, subtitle: str, sections: Sequence[Section], *, static: bool = False, style: str = ""
) -> str:
    """The page around its sections; a `static` one has no program, and so no figures that need one."""
    here = files("fedhpo.report")
    style = (here / "style.css").read_text(encoding="utf-8") + style
    draw, sort = "", ""
    if not static:
        draw = f"<script>{plotly_js()}</script>\n"
        sort = f"<script>\n{(here / 'sort.js').read_text(encoding='utf-8')}</script>\n"
    body = "\n".join(section.render() for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)} · fedhpo</title>
<style>
{style}</style>
{draw}</head>
<body>
<header><h1>{text(title)}</h1><p>{text(subtitle)}</p></header>
<main>
{body}
</main>
<footer>fedhpo {text(fedhpo.__version__)}</footer>
{sort}</body>
</html>
"""

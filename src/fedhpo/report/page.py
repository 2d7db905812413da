"""The page: sections in a frame that holds its own style and programs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import fedhpo
from fedhpo.errors import FedhpoError, InputError
from fedhpo.report.compare import comparison
from fedhpo.report.figure import plotly_js
from fedhpo.report.html import Section, text
from fedhpo.report.sections import SECTIONS
from fedhpo.report.view import RunView, load_view

#: What reading a run's files can raise that are not as fedhpo wrote them.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


def write_report(runs: Sequence[str | Path], output: str | Path) -> Path:
    """Write the report on a run, or the comparison of several, and return where it is."""
    output = Path(output)
    views = [_viewed(Path(run)) for run in runs]
    content = _shown(views, runs)
    try:
        _write(output, content)
    except OSError as error:
        raise InputError(f"cannot write the report {output}: {error.strerror or error}") from None
    return output


def _write(output: Path, content: str) -> None:
    """Aside, then renamed: the page is whole or as it was, and a link in its place is not followed."""
    if output.exists() and not output.is_file():  # such as /dev/stdout
        output.write_text(content, encoding="utf-8")
        return
    aside = output.with_name(output.name + ".part")
    aside.unlink(missing_ok=True)  # what a kill left behind
    try:
        with aside.open("x", encoding="utf-8") as file:
            file.write(content)
        aside.replace(output)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _viewed(run: Path) -> RunView:
    """Read the run; nothing that its files name is imported."""
    try:
        return load_view(run)
    except FedhpoError:
        raise
    except _DAMAGE as error:
        raise _damaged(run, error) from error


def _shown(views: Sequence[RunView], runs: Sequence[str | Path]) -> str:
    try:
        return page(views)
    except FedhpoError:
        raise
    except _DAMAGE as error:
        raise _damaged(" or ".join(map(str, runs)), error) from error


def _damaged(run: str | Path, error: Exception) -> InputError:
    why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
    return InputError(f"no report on {run}: a file of the run is damaged, or not what fedhpo wrote ({why})")


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
    first, last = [], []
    if not static:
        first = [plotly_js()]
        last = [(here / name).read_text(encoding="utf-8") for name in ("draw.js", "sort.js")]
    begin, end = ("".join(f"<script>{program}</script>\n" for program in some) for some in (first, last))
    body = "\n".join(section.render() for section in sections)
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
<header><h1>{text(title)}</h1><p>{text(subtitle)}</p></header>
<main>
{body}
</main>
<footer>fedhpo {text(fedhpo.__version__)}</footer>
{end}</body>
</html>
"""

"""The page: sections in a frame that holds its own style and programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.settings import shown
from fedhpo.figures.reading import load_view
from fedhpo.figures.view import RunView
from fedhpo.pages.page import frame
from fedhpo.report.compare import comparison
from fedhpo.report.sections import sections

#: What reading a run's files can raise that are not as fedhpo wrote them.
DAMAGE = (
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
    if isinstance(runs, str | bytes | os.PathLike) or not isinstance(runs, Sequence) or not runs:
        raise InputError(f"runs must be a list of runs' directories, such as ['runs/a'], not {shown(runs)}")
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
    except DAMAGE as error:
        raise _damaged(run, error) from error


def _shown(views: Sequence[RunView], runs: Sequence[str | Path]) -> str:
    try:
        return page(views)
    except FedhpoError:
        raise
    except DAMAGE as error:
        raise _damaged(" or ".join(map(str, runs)), error) from error


def _damaged(run: str | Path, error: Exception) -> InputError:
    why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
    return InputError(f"no report on {run}: a file of the run is damaged, or not what fedhpo wrote ({why})")


def page(views: Sequence[RunView]) -> str:
    """The whole page as HTML."""
    if len(views) == 1:
        return frame(views[0].name, subtitle(views[0]), sections(views[0]))
    return frame("Comparison", f"{len(views)} runs", comparison(views))


def subtitle(view: RunView) -> str:
    """Method, data and state on one line."""
    federation = view.facts["federation"] or {}
    data = federation.get("data", "")
    clients = f"{federation['clients']} clients" if "clients" in federation else ""
    parts = [view.result["method"]["name"], data, clients, view.result["status"]]
    return " · ".join(str(part) for part in parts if part)

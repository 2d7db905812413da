"""Notebooks, executed and written as Markdown with what they showed."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLOT = "application/vnd.plotly.v1+json"


def executed(path: Path, work: Path, root: Path) -> tuple[Any, float]:
    """The notebook with its outputs, run in a copy of its directory; and the seconds that it took.

    An error in a cell ends the build, with the cell and the traceback.
    """
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor

    folder = work / path.parent.name
    shutil.copytree(
        path.parent, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "runs")
    )
    os.environ["PYTHONPATH"] = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
    notebook = nbformat.read(path, as_version=4)
    begun = time.perf_counter()
    quiet = ["--log-level=40"]  # no word about messages on this machine that are not encrypted
    ExecutePreprocessor(timeout=300, extra_arguments=quiet).preprocess(
        notebook, {"metadata": {"path": str(folder)}}
    )
    return notebook, time.perf_counter() - begun


def markdown(notebook: Any, source: str) -> str:
    """An executed notebook as a page."""
    parts: list[str] = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [shown for output in cell.outputs for shown in _shown(output, f"plot-{number}")]
    title, _, rest = parts[0].partition("\n")
    note = (
        f'<p class="made">Executed when this site was built. To run it yourself: <code>{source}</code>.</p>'
    )
    return "\n\n".join([title, note, rest.strip(), *parts[1:]]) + "\n"


def _shown(output: Any, name: str) -> Iterator[str]:
    data = output.get("data", {})
    if output.output_type == "stream":
        text = _plain(output.text)
        if text.strip() and output.name == "stdout":
            yield f'```text title="out"\n{text}\n```'
    elif PLOT in data:
        figure = json.dumps({key: data[PLOT][key] for key in ("data", "layout")}).replace("</", "<\\/")
        yield (
            f'<div class="plot" id="{name}"></div>\n'
            f'<script type="application/json" data-plot="{name}">{figure}</script>'
        )
    elif "text/html" in data:
        html = re.sub(r"\n\s*\n", "\n", _joined(data["text/html"]))
        yield f'<div class="output">\n{html}\n</div>'
    elif "text/plain" in data:
        yield f'```text title="out"\n{_plain(_joined(data["text/plain"]))}\n```'


def _joined(text: Any) -> str:
    return text if isinstance(text, str) else "".join(text)


def _plain(text: str) -> str:
    """Without colours, and each line as it stood last where it was overwritten."""
    return "\n".join(line.rpartition("\r")[2] for line in COLOURS.sub("", text).rstrip("\n").split("\n"))

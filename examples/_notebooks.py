"""Make the notebooks from the scripts: `python examples/_notebooks.py`.

A cell begins with `# %%`; one of text with `# %% [markdown]`, its lines being comments.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDERS = ("users", "tutorials")


def scripts() -> list[Path]:
    """The scripts that are notebooks too."""
    return sorted(path for folder in FOLDERS for path in (HERE / folder).glob("*.py"))


def notebook(script: str) -> dict[str, Any]:
    """A script as a notebook, without outputs."""
    cells: list[dict[str, Any]] = []
    for part in script.split("# %%")[1:]:
        first, _, rest = part.partition("\n")
        lines = rest.strip("\n").split("\n")
        text = "[markdown]" in first
        if text:
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines if line]
        source = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
        kind: dict[str, Any] = (
            {"cell_type": "markdown"}
            if text
            else {"cell_type": "code", "execution_count": None, "outputs": []}
        )
        cells.append({**kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def written(path: Path) -> str:
    """What the notebook of a script holds."""
    return json.dumps(notebook(path.read_text(encoding="utf-8")), indent=1) + "\n"


if __name__ == "__main__":
    for path in scripts():
        path.with_suffix(".ipynb").write_text(written(path), encoding="utf-8")

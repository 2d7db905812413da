"""Draw the pictures of docs/gallery.md and of the README with a headless browser: `python docs/_gallery.py`.

`python docs/_gallery.py regret` draws only that of the README, from docs/bench.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

import fedhpo as fh

HERE = Path(__file__).parent / "gallery"
WIDTH, HEIGHT = 720, 420
#: Each plot of the page.
PLOTS = (
    "curves",
    "leading",
    "history",
    "importance",
    "slice",
    "contour",
    "parallel",
    "edf",
    "clients",
    "timeline",
)


def regret() -> Any:
    """Regret of `auto`, of the best of Optuna's under each setting, and of random search, by the bench."""
    settings = json.loads((HERE.parent / "bench.json").read_text(encoding="utf-8"))["by_setting"]
    shown: dict[str, list[float]] = {"fedhpo's auto": [], "the best of Optuna's": [], "random search": []}
    for rows in settings.values():
        means = {row["method"]: row["regret"]["mean"] for row in rows}
        best = min(value for name, value in means.items() if name.startswith("optuna-"))
        for name, value in zip(shown, (means["auto"], best, means["random"]), strict=True):
            shown[name].append(value)
    colours = ("#0b7285", "#d9730d", "#b0bcc6")
    bars = [
        go.Bar(
            name=name,
            x=[name.replace(", ", ",<br>") for name in settings],
            y=values,
            marker_color=colour,
            text=[f"{one:.1f}" for one in values],
        )
        for (name, values), colour in zip(shown.items(), colours, strict=True)
    ]
    figure = go.Figure(bars)
    figure.update_layout(
        template="plotly_white",
        font={"family": "DejaVu Sans, sans-serif", "size": 13},
        margin={"l": 60, "r": 10, "t": 40, "b": 40},
        legend={"orientation": "h", "y": 1.1},
        yaxis={"title": "regret, points of accuracy"},
    )
    return figure


def drawn(figure: Any, name: str, folder: Path) -> None:
    """Write a figure as a picture."""
    figure.update_layout(width=WIDTH, height=HEIGHT)
    page = folder / f"{name}.html"
    figure.write_html(page, include_plotlyjs=True, config={"displayModeBar": False})
    page.write_text(page.read_text(encoding="utf-8").replace("<body>", '<body style="margin:0">'))
    browser = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=4000"]
    size, target = f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={HERE / name}.png"
    subprocess.run([*browser, size, target, page.as_uri()], check=True, capture_output=True)


def main() -> None:
    """Tune the digits, and draw each plot of the result."""
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        drawn(regret(), "regret", Path(folder))
        if sys.argv[1:] == ["regret"]:
            return
        study = fh.Study.load(Path(__file__).parents[1] / "examples" / "digits.toml")
        result = study.tune(Path(folder) / "run")
        for name in PLOTS:
            drawn(getattr(result.plot, name)(), name, Path(folder))


if __name__ == "__main__":
    main()

"""Draw the pictures of docs/gallery.md with a headless browser: `python docs/_gallery.py`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

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


def main() -> None:
    """Tune the digits, and draw each plot of the result."""
    study = fh.Study.load(Path(__file__).parents[1] / "examples" / "digits.toml")
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        result = study.tune(Path(folder) / "run")
        for name in PLOTS:
            figure = getattr(result.plot, name)()
            figure.update_layout(width=WIDTH, height=HEIGHT)
            page = Path(folder) / f"{name}.html"
            figure.write_html(page, include_plotlyjs=True, config={"displayModeBar": False})
            page.write_text(page.read_text(encoding="utf-8").replace("<body>", '<body style="margin:0">'))
            browser = [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--virtual-time-budget=4000",
            ]
            size, target = f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={HERE / name}.png"
            subprocess.run([*browser, size, target, page.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()

"""What docs/your-own.md shows runs, or stands in examples/extending."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "your-own.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE, re.DOTALL)
TAKEN = [text for _, text in BLOCKS if text.startswith("# examples/")]


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: text.partition("\n")[0])
def test_what_is_taken_from_an_example_stands_there(text):
    name, _, rest = text.partition("\n")
    source = (ROOT / name.removeprefix("# ")).read_text(encoding="utf-8")
    for piece in rest.split("\n...\n"):
        assert piece.rstrip("\n") in source


def test_the_other_code_runs():
    space: dict[str, object] = {"__name__": "your_own"}
    for language, text in BLOCKS:
        if language == "python" and text not in TAKEN:
            exec(compile(text, "your-own.md", "exec"), space)
    assert {"SignMean", "Telling", "LabelCounts", "app"} <= set(space)


def test_the_entry_points_are_of_known_kinds():
    from fedhpo.core.registry import GROUP, KINDS

    [text] = [text for _, text in BLOCKS if text.startswith("[project.entry-points")]
    points = tomllib.loads(text)["project"]["entry-points"][GROUP]
    assert {name.partition(".")[0] for name in points} <= set(KINDS)
    listed = re.search(r"Kinds are (.*?)\. ", PAGE, re.DOTALL)[1]
    assert re.findall(r"`(\w+)`", listed) == list(KINDS)

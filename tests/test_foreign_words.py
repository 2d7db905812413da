"""Words of other tools (`docs/foreign_words.py`): each is refused, and answered with ours."""

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
foreign_words = importlib.import_module("foreign_words")
sys.path.remove(str(DOCS))


@pytest.mark.parametrize("case", foreign_words.CASES, ids=lambda case: case.shown)
def test_a_word_of_another_tool_is_answered_with_ours(case, tmp_path):
    code, printed = foreign_words.answer(case, tmp_path)
    assert code == 2
    assert case.names in printed
    page = (DOCS / "words.md").read_text(encoding="utf-8")
    assert printed in page, "run: python docs/_make.py"


def test_there_are_sixty_of_them():
    assert len(foreign_words.CASES) >= 60
    assert len({case.shown for case in foreign_words.CASES}) == len(foreign_words.CASES)

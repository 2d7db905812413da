"""Every bad input of `docs/bad_inputs.py`: exit code 2, no traceback, and a message that names the key."""

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
bad_inputs = importlib.import_module("bad_inputs")
sys.path.remove(str(DOCS))

PRINTED = {}


@pytest.mark.parametrize("case", bad_inputs.CASES, ids=lambda case: case.mistake)
def test_a_mistake_is_told_without_a_traceback(case, tmp_path):
    code, printed = PRINTED[case.mistake] = case.run(tmp_path)
    assert code == 2
    assert "Traceback" not in printed
    assert case.names in printed


def test_the_page_is_up_to_date():
    if len(PRINTED) < len(bad_inputs.CASES):
        pytest.skip("not all cases were run")
    shown = bad_inputs.page([PRINTED[case.mistake] for case in bad_inputs.CASES])
    assert (DOCS / "bad-inputs.md").read_text(encoding="utf-8") == shown, "run: python docs/_make.py"

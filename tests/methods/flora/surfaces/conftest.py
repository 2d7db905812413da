"""Makes `hand_made`, the parties of these tests, importable; and forests small where size does not matter."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedhpo.surrogates.regressors.TREES", 10)

"""Small studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

STUDY = """
[data]
name = "digits"
clients = 40
[model]
name = "mlp"
[space.client]
lr = {{ low = 0.001, high = 1.0, log = true, default = {lr} }}
[budget]
rounds = {rounds}
cohort = 5
{more}
"""


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., str]:
    """Writes a study of digits with a small MLP."""

    def write(name: str, lr: float = 0.02, rounds: int = 3, more: str = "") -> str:
        path = tmp_path / f"{name}.toml"
        path.write_text(STUDY.format(lr=lr, rounds=rounds, more=more))
        return str(path)

    return write

"""Over Flower `device` is refused, [federation] is set aside and said, and bagging refuses `aggregation`."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from fedhpo import InputError, Study
from fedhpo.flower import InProcessGrid, client, tune

BASE = {
    "data": {"name": "synthetic", "clients": 3, "samples": 40, "dimension": 4, "classes": 2},
    "budget": {"rounds": 1, "total": 2, "cohort": 3},
    "method": {"name": "random"},
}
TORCH = {
    **BASE,
    "model": {"name": "linear"},
    "space": {"client": {"lr": {"low": 0.01, "high": 1.0}}},
}
TREES = {**BASE, "model": {"name": "xgboost"}, "space": {"client": {"max_iter": {"low": 2, "high": 4}}}}


def tuned(tables: dict) -> str:
    """What was said on standard error in a run over three nodes in this process."""
    study, said = Study.from_dict(tables), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
        grid = InProcessGrid(client(ClientApp(), study=study), 3)
        tune(grid, Context(1, 1, {}, RecordDict(), {"run-dir": f"{folder}/run"}), study)
    return said.getvalue()


def refused(key: str, tables: dict) -> bool:
    """Whether the study is refused, and the message names the key."""
    try:
        tuned(tables)
    except InputError as error:
        return key in str(error)
    return False


def main() -> int:
    """The three of them."""
    seen = {
        "device refused": refused("device", {**TORCH, "device": "cuda"}),
        "dropouts said": "[federation]" in tuned({**TORCH, "federation": {"dropouts": 0.9}}),
        "aggregation refused": refused("aggregation", {**TREES, "server": {"aggregation": "median"}}),
    }
    print(f"Flower in process: {', '.join(f'{name}: {found}' for name, found in seen.items())}")
    return int(not all(seen.values()))


if __name__ == "__main__":
    sys.exit(main())

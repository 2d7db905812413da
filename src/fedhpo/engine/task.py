"""Checks that the metric suits the targets. Needs no torch: federations of learners use it too."""

from __future__ import annotations

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData


class PreflightError(InputError):
    """Training or scoring would fail; the message says why, quotes the exception and says what to write."""

    def __init__(self, what: str, instead: str = "") -> None:
        super().__init__(f"{what}\n  write instead: {instead}" if instead else what)


def check_task(data: FederatedData, metric: str) -> None:
    """Refuse accuracy of float targets."""
    if data.y.dtype.kind != "f" or metric not in ("accuracy", "error"):
        return
    whole = bool((data.y[:1000] == np.rint(data.y[:1000])).all())
    classes = "if they are classes, y.astype('int64'); otherwise " if whole else ""
    raise PreflightError(
        f"{metric} is not defined for float targets: y is {data.y.dtype}, which is regression",
        f"{classes}objective='loss' (objective.metric = \"loss\" in a study file)",
    )

"""Checks that the metric suits the targets. Needs no torch: federations of learners use it too."""

from __future__ import annotations

import numpy as np

from fedhpo.data import FederatedData
from fedhpo.protocol.errors import PreflightError as PreflightError


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

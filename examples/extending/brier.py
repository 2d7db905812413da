"""A metric of one's own: the Brier score. Used from brier.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Brier:
    """The squared distance between told probabilities and the class that came (Brier, 1950)."""

    maximise: ClassVar[bool] = False

    def __call__(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.float64]:
        """One number for each row; outputs are probabilities of the classes."""
        came = np.eye(outputs.shape[1])[targets]
        return np.square(outputs - came).sum(axis=1)

"""TensorBoard: `tensorboard --logdir DIRECTORY` shows each trial as a run, with its hyperparameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.errors import MissingExtraError
from fedhpo.trackers.tracker import Tracker


class TensorBoard(Tracker):
    """Writes event files into `directory`, a folder for each trial."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__()
        self._directory = Path(directory)
        self._writers: dict[int, Any] = {}
        self._configs: dict[int, Mapping[str, Any]] = {}
        self._last: dict[int, Mapping[str, float]] = {}

    def begin(self, trial: int, config: Mapping[str, Any]) -> None:
        """Open the trial's event file."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard") from None
        self._writers[trial] = SummaryWriter(str(self._directory / f"trial-{trial}"))
        self._configs[trial] = config

    def log(self, trial: int, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._writers[trial].add_scalar(name, value, step)
        self._writers[trial].flush()
        self._last[trial] = values

    def end(self, trial: int, facts: Mapping[str, Any]) -> None:
        """Write the hyperparameters with the last scores, and what became of the trial."""
        writer = self._writers.pop(trial)
        told = {f"hparam/{name}": value for name, value in self._last[trial].items()}
        plain = {
            k: v if isinstance(v, bool | int | float | str) else str(v)
            for k, v in self._configs[trial].items()
        }
        writer.add_hparams(plain, told, run_name=".")
        writer.add_text("status", f"{facts['status']}{', the best' if facts['best'] else ''}")
        writer.close()

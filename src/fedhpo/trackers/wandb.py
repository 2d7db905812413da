"""Weights & Biases: a run for each trial, in one group; offline unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fedhpo.core.errors import MissingExtraError
from fedhpo.trackers.tracker import Tracker


class WandB(Tracker):
    """Logs to a project; `mode="offline"` (the default) writes files, for `wandb sync` later."""

    def __init__(
        self,
        project: str = "fedhpo",
        group: str | None = None,
        mode: Literal["offline", "online"] = "offline",
        directory: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = {"project": project, "group": group, "mode": mode, "dir": directory}
        self._runs: dict[int, Any] = {}

    def begin(self, trial: int, config: Mapping[str, Any]) -> None:
        """A run with the trial's hyperparameters; several are open side by side."""
        try:
            import wandb
        except ImportError:
            raise MissingExtraError("wandb", "wandb") from None
        self._runs[trial] = wandb.init(
            **self._settings, name=f"trial-{trial}", config=dict(config), reinit="create_new"
        )

    def log(self, trial: int, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self._runs[trial].log(dict(values), step=step)

    def end(self, trial: int, facts: Mapping[str, Any]) -> None:
        """Say what became of the trial, and end its run."""
        run = self._runs.pop(trial)
        run.summary.update(dict(facts))
        run.finish()

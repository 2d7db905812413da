"""Trackio: a run for each trial in a project on this machine; `trackio show` draws them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import MissingExtraError
from fedhpo.trackers.tracker import Tracker


class Trackio(Tracker):
    """Logs to a local project of Trackio. It has one run open at a time: each score reopens its trial's."""

    def __init__(self, project: str = "fedhpo", group: str | None = None) -> None:
        super().__init__()
        self._project, self._group = project, group
        self._configs: dict[int, dict[str, Any]] = {}
        self._steps: dict[int, int] = {}

    def begin(self, trial: int, config: Mapping[str, Any]) -> None:
        """Keep the trial's hyperparameters, which its run begins with."""
        self._configs[trial] = dict(config)

    def log(self, trial: int, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        try:
            import trackio
        except ImportError:
            raise MissingExtraError("trackio", "trackio") from None
        with contextlib.redirect_stdout(io.StringIO()):  # it greets and says goodbye each time
            run = trackio.init(
                project=self._project,
                name=f"trial-{trial}",
                group=self._group,
                config=self._configs[trial],
                resume="never" if trial not in self._steps else "allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
            run.log(dict(values), step=step)
            trackio.finish()
        self._steps[trial] = step

    def end(self, trial: int, facts: Mapping[str, Any]) -> None:
        """A last point: what became of the trial."""
        self.log(trial, self._steps[trial], dict(facts))
        del self._configs[trial], self._steps[trial]

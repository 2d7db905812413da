"""MLflow: an experiment for the searches, a run for each trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import MissingExtraError
from fedhpo.trackers.tracker import Tracker

#: MLflow's names take letters, digits and these.
_KEPT = "_-./ "


class MLflow(Tracker):
    """Logs to MLflow's tracking server or local store at `uri` (its own default if left out)."""

    def __init__(self, experiment: str = "fedhpo", uri: str | None = None, group: str | None = None) -> None:
        super().__init__()
        self._experiment, self._uri, self._group = experiment, uri, group
        self._client: Any = None
        self._runs: dict[int, str] = {}

    def _open(self) -> str:
        """The client, and the number of the experiment."""
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise MissingExtraError("mlflow", "mlflow") from None
        if self._client is None:
            self._client = MlflowClient(self._uri)
        found = self._client.get_experiment_by_name(self._experiment)
        return str(found.experiment_id if found else self._client.create_experiment(self._experiment))

    def begin(self, trial: int, config: Mapping[str, Any]) -> None:
        """A run with the trial's hyperparameters."""
        experiment = self._open()
        tags = {"fedhpo.trial": str(trial)} | ({"fedhpo.group": self._group} if self._group else {})
        run = self._client.create_run(experiment, run_name=f"trial-{trial}", tags=tags)
        self._runs[trial] = run.info.run_id
        for name, value in config.items():
            self._client.log_param(self._runs[trial], _name(name), value)

    def log(self, trial: int, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each metric."""
        for name, value in values.items():
            self._client.log_metric(self._runs[trial], _name(name), value, step=step)

    def end(self, trial: int, facts: Mapping[str, Any]) -> None:
        """Say what became of the trial."""
        run = self._runs.pop(trial)
        for name, value in facts.items():
            self._client.set_tag(run, f"fedhpo.{name}", str(value).lower())
        self._client.set_terminated(run, "FAILED" if facts["status"] == "failed" else "FINISHED")


def _name(name: str) -> str:
    """A name as MLflow takes it."""
    return "".join(mark if mark.isalnum() or mark in _KEPT else "_" for mark in name)

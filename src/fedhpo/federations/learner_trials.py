"""Trials whose model is a learner: one round is one whole training, and there is no second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.protocol.federation import Work
from fedhpo.space.config import Config


@dataclass(frozen=True)
class LearnerTrial:
    """What determines a trained learner; `client` is None before its training.

    What came of it, where it can be sent: `raw` are an XGBoost model's bytes, `arrays` the weights of an MLP.
    """

    model: Mapping[str, Any]
    seed: int
    client: Mapping[str, Any] | None = None
    cohort: tuple[int, ...] = ()
    raw: bytes = b""
    arrays: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """All its hyperparameters."""
        return Config(client=self.client or {}, model=self.model)


class TrainsWhole(HoldsTable):
    """What federations of learners do alike, wherever the parties are."""

    _trials: TrialTable[LearnerTrial, Any]

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A learner that is not trained yet."""
        self._trials.add(trial, LearnerTrial(dict(model), seed))

    def fork(self, source: int, target: int) -> None:
        """Refused: nothing is left to train."""
        raise InputError("a learner cannot fork: it is trained whole, and cannot go on under another config")

    def _accepted(self, work: Work, learner: Learner | Algorithms) -> LearnerTrial:
        """The trial as it is after this work; refuses work that is not one whole training."""
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        if not isinstance(work.client, Mapping):
            raise InputError("learners train with one client config for the whole cohort")
        if trial.client is not None:
            raise InputError("a learner is trained whole in one round: rounds must be 1")
        for name in work.server:
            raise InputError(f"server hyperparameter {name!r}: learners have none")
        learner.check([*work.client, *trial.model])
        return replace(trial, client=dict(work.client), cohort=tuple(work.cohort))

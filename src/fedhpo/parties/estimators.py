"""A client that fits estimators on its own rows, and searches there for good hyperparameters (FLoRA)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.data import FederatedData
from fedhpo.federations.pooled import PooledLearners
from fedhpo.federations.remote.clients import LEARNER, Hello
from fedhpo.federations.remote.estimators import RANGE, scaled, weights_of
from fedhpo.federations.remote.messages import Scored, Task, Trained
from fedhpo.learners.averaging import can_average, trained_arrays, with_arrays
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.prepare import FITTED, Prepared
from fedhpo.learners.scoring import BALANCED, fitted, outputs_of, score_of
from fedhpo.learners.tasks import Bench
from fedhpo.parties.context import Context
from fedhpo.parties.queries import local_search_of, searched
from fedhpo.parties.rows import NodeRows
from fedhpo.protocol.metrics import distinct
from fedhpo.space.config import Config


class EstimatorParty:
    """Fits and scores a learner at one node."""

    tells = True

    def __init__(self, learner: Learner | Algorithms, rows: NodeRows, scoring: str | None = None) -> None:
        self._given, self._rows, self._scoring = learner, rows, scoring

    def hello(self, context: Context) -> Hello:
        """What this node is."""
        return self._rows.hello(context, LEARNER)

    def train(self, arrays: Any, task: Task, context: Context) -> Trained:
        """An MLP's weights after an exchange; another learner is fitted, and stays here."""
        here = self._here(context, task)
        if can_average(here.learner):
            assert isinstance(here.learner, Learner)
            x, y = here.rows("train")
            if task.round == 0:
                sent = {
                    name: np.asarray(of(x, axis=0)) for name, of in zip(RANGE, (np.min, np.max), strict=True)
                }
            else:
                seed = derive(task.seed[0], "fit", task.round, task.client) % 2**32
                own = weights_of(arrays)
                sent = trained_arrays(
                    here.learner, config_of(task), own, scaled(x, arrays), y, here.data.classes, seed
                )
        else:
            self._fitted(here, task)
            sent = {}
        sizes = [self._rows.told(here.size(split)) for split in ("train", "validation")]
        return Trained(sent, *sizes)

    def evaluate(self, arrays: Any, task: Task, context: Context) -> Scored:
        """The scores on this node's rows of a split; a trial has no model before its round."""
        here = self._here(context, task)
        x, y = here.rows(task.split)
        size = self._rows.told(len(y))
        if not task.round or not len(y) or not (arrays or here.size("train")):
            return Scored(size)
        if arrays:
            assert isinstance(here.learner, Learner)
            x = scaled(x, arrays)
            made = with_arrays(here.learner, config_of(task), weights_of(arrays), here.data.classes)
        else:
            made = self._fitted(here, task)
        loss = 1 - score_of(made, x, y, here.scoring)
        outputs = outputs_of(made, x, here.data.classes)
        metrics = {metric.name: metric.value(outputs, y) for metric in distinct(task.metrics)}
        accuracy = float("nan") if here.data.classes is None else float((made.predict(x) == y).mean())
        return Scored(size, loss, accuracy, metrics)

    def local_search(self, query: Mapping[str, Any], _: Any, task: Task, context: Context) -> Any:
        """The answer to `fedhpo.queries.local_search.LocalSearch`, and what it cost."""
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        with PooledLearners(data, self._given, scoring=self._scoring, scaling="fitted", workers=0) as here:
            [answer] = here.query(local_search_of(query), [place])
        return searched(answer, self._rows.tells)

    def fine_tune(self, query: Mapping[str, Any], _: Any, task: Task, context: Context) -> Any:
        """Refused."""
        raise InputError("a learner cannot be fine-tuned: it is trained whole")

    def _here(self, context: Context, task: Task) -> _Here:
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        scoring = self._scoring or ("r2" if data.task == "regression" else BALANCED)
        prepared = Prepared.of(data, self._given, FITTED)
        return _Here(prepared.data, place, prepared.learner, scoring)

    @staticmethod
    def _fitted(here: _Here, task: Task) -> Any:
        """An estimator fitted on this node's training rows: the same one at every call."""
        return fitted(here.learner, config_of(task), *here.rows("train"), derive(task.seed[0], "fit") % 2**32)


class _Here:
    """This node's rows, and what is fitted on them."""

    def __init__(self, data: FederatedData, place: int, learner: Learner | Algorithms, scoring: str) -> None:
        self.data, self.learner, self.scoring = data, learner, scoring
        self._place = place

    def rows(self, split: str) -> tuple[NDArray[Any], NDArray[Any]]:
        return Bench(self.learner, self.data).rows([self._place], split)

    def size(self, split: str) -> int:
        return len(getattr(self.data, split).rows(self._place))


def config_of(task: Task) -> Config:
    """The config that a task names."""
    return Config(client=task.config, model=task.model)

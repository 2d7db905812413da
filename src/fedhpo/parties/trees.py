"""A client that boosts trees on its own rows, and searches there for good hyperparameters (FLoRA)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.federations.pooled import PooledLearners
from fedhpo.federations.remote.clients import TREES, Hello
from fedhpo.federations.remote.messages import Scored, Task, Trained
from fedhpo.learners.bagging import boost
from fedhpo.learners.boosted import BoostedTrees
from fedhpo.learners.learner import Algorithms, Learner
from fedhpo.learners.scoring import BALANCED, outputs_of, score_of
from fedhpo.learners.tasks import Bench
from fedhpo.parties.context import Context
from fedhpo.parties.queries import local_search_of, searched
from fedhpo.parties.rows import NodeRows
from fedhpo.protocol.metrics import distinct


class TreesParty:
    """Trains and scores boosted trees at one node."""

    tells = True

    def __init__(self, learner: Learner | Algorithms, rows: NodeRows, scoring: str | None = None) -> None:
        self._learner, self._rows, self._scoring = learner, rows, scoring or BALANCED

    def hello(self, context: Context) -> Hello:
        """What this node is."""
        return self._rows.hello(context, TREES)

    def train(self, model: Any, task: Task, context: Context) -> Trained:
        """Boosting on this node's training rows alone: on from the model that came, if one did."""
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        seed = derive(task.seed[0], "fit") % 2**31
        trees = BoostedTrees(**{**task.config, **task.model}, random_state=seed)
        x, y = Bench(self._learner, data).rows([place])
        return Trained(
            boost(trees, x, y, data.classes or 2, model or b""),
            self._rows.told(len(y)),
            self._rows.told(len(data.validation.rows(place))),
        )

    def evaluate(self, model: bytes, task: Task, context: Context) -> Scored:
        """The model's scores on this node's rows of a split; a trial has no model before its round."""
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        x, y = Bench(self._learner, data).rows([place], task.split)
        size = self._rows.told(len(y))
        if not model or not len(y):
            return Scored(size)
        trees = BoostedTrees().adopt(model, data.classes or 2)
        loss = 1 - score_of(trees, x, y, self._scoring)
        outputs = outputs_of(trees, x, data.classes)
        metrics = {metric.name: metric.value(outputs, y) for metric in distinct(task.metrics)}
        return Scored(size, loss, float((trees.predict(x) == y).mean()), metrics)

    def local_search(self, query: Mapping[str, Any], _: Any, task: Task, context: Context) -> Any:
        """The answer to `fedhpo.queries.local_search.LocalSearch`, and what it cost."""
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        with PooledLearners(data, self._learner, scoring=self._scoring, workers=0) as here:
            [answer] = here.query(local_search_of(query), [place])
        return searched(answer, self._rows.tells)

    def fine_tune(self, query: Mapping[str, Any], _: Any, task: Task, context: Context) -> Any:
        """Refused."""
        raise InputError("boosted trees cannot be fine-tuned: they are trained whole")

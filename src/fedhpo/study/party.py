"""A client of ours: trains what its study says, a torch model or a learner, on the node's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fedhpo.aggregation.presets import SAFE
from fedhpo.federations.remote.clients import Hello
from fedhpo.federations.remote.messages import Scored, Task, Trained
from fedhpo.methods import FedTune
from fedhpo.methods.fedtune import TablePolicy
from fedhpo.parties.context import Context
from fedhpo.parties.party import AskedParty
from fedhpo.parties.rows import DataFunction, NodeRows
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.query import OwnQuery
from fedhpo.queries.local_search import LocalSearch
from fedhpo.queries.own import answered, party_at
from fedhpo.study.study import Study


class StudyParty:
    """What a node does for a study; see `NodeRows` for `data`. `runtime` is the study's section about it."""

    def __init__(
        self,
        study: Study | str | Path,
        data: DataFunction | None = None,
        device: str = "cpu",
        tell_sizes: bool = True,
        runtime: str = "flower",
    ) -> None:
        self._given, self._data, self._device, self._tells = study, data, device, tell_sizes
        self._runtime = runtime

    @cached_property
    def _study(self) -> Study:
        """Read when it is first needed: an app is imported in processes that need no study."""
        return self._given if isinstance(self._given, Study) else Study.load(self._given)

    @property
    def tells(self) -> bool:
        """Whether the server may know how many rows there are.

        Not where each client looks up its own hyperparameters and no weight needs a size.
        """
        method = self._study.method
        looks_up = isinstance(method, FedTune) or isinstance(getattr(method, "policy", None), TablePolicy)
        return self._tells and (self._study.aggregation(default=SAFE).by_size or not looks_up)

    @property
    def hold_replies(self) -> float:
        """Seconds after which a reply to a training leaves."""
        held: float = getattr(self._study.file, self._runtime).hold_replies
        return held

    @cached_property
    def _rows(self) -> NodeRows:
        return NodeRows(self._study.kind.rows, self._data, self.tells)

    @cached_property
    def _party(self) -> AskedParty:
        return self._study.kind.party(self._rows, self._device)

    def hello(self, context: Context) -> Hello:
        """What this node is."""
        return self._party.hello(context)

    def train(self, model: Any, task: Task, context: Context) -> Trained:
        """Local training."""
        return self._party.train(model, task, context)

    def evaluate(self, model: Any, task: Task, context: Context) -> Scored:
        """Scores on this node's rows of a split."""
        return self._party.evaluate(model, task, context)

    def answer(self, query: OwnQuery, model: Any, task: Task, context: Context) -> Any:
        """The answer to a query that brings its own, on this node's rows, and what it cost."""
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        weights = None if isinstance(model, bytes) or not model else model
        party = party_at(data, place, task.client, query, weights, task.seed)
        content = answered(query, party)
        return content, party.counted | ({} if self._rows.tells else {"samples": 0})

    @property
    def queries(self) -> Mapping[str, Any]:
        """The queries that this client answers, by name."""
        return {
            FineTune.name: lambda *asked: self._party.fine_tune(*asked),
            LocalSearch.name: lambda *asked: self._party.local_search(*asked),
        }

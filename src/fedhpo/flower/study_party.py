"""A client of ours: trains what its study says, a torch model or boosted trees, on the node's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context

from fedhpo.data import without_missing
from fedhpo.federations.flower.clients import Hello
from fedhpo.federations.flower.messages import Scored, Task, Trained
from fedhpo.flower.rows import DataFunction, NodeRows
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.queries.local_search import LocalSearch
from fedhpo.study import Study
from fedhpo.study.learners import is_learner

if TYPE_CHECKING:
    from fedhpo.flower.torch_party import TorchParty
    from fedhpo.flower.trees_party import TreesParty


class StudyParty:
    """What a node does for a study; see `NodeRows` for `data`."""

    def __init__(
        self,
        study: Study | str | Path,
        data: DataFunction | None = None,
        device: str = "cpu",
        tell_sizes: bool = True,
    ) -> None:
        self._given, self._data, self._device, self._tells = study, data, device, tell_sizes

    @cached_property
    def _party(self) -> TorchParty | TreesParty:
        """Made when it is first needed: an app is imported in processes that need no study."""
        study = self._given if isinstance(self._given, Study) else Study.load(self._given)
        if is_learner(study.file.model):
            from fedhpo.flower.trees_party import TreesParty

            return TreesParty(study, NodeRows(study.load_data, self._data, self._tells))
        from fedhpo.flower.torch_party import TorchParty

        rows = NodeRows(lambda: without_missing(study.load_data()), self._data, self._tells)
        return TorchParty(study, rows, self._device)

    def hello(self, context: Context) -> Hello:
        """What this node is."""
        return self._party.hello(context)

    def train(self, model: Any, task: Task, context: Context) -> Trained:
        """Local training."""
        return self._party.train(model, task, context)

    def evaluate(self, model: Any, task: Task, context: Context) -> Scored:
        """Scores on this node's rows of a split."""
        return self._party.evaluate(model, task, context)

    @property
    def queries(self) -> Mapping[str, Any]:
        """The queries that this client answers, by name."""
        return {
            FineTune.name: lambda *asked: self._party.fine_tune(*asked),
            LocalSearch.name: lambda *asked: self._party.local_search(*asked),
        }

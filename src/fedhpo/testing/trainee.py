"""What every trainee must do, as tests to inherit from.

A trainee of your own passes if this class, in a file that pytest collects, passes:

    class TestMine(TraineeSuite):
        def trainee(self) -> Trainee:
            return Mine()

        def data(self) -> FederatedData:
            return fh.load("digits", clients=4)

        config = {"lr": 0.1}
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fedhpo.data import FederatedData
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.federations.remote.messages import Scored, Task, Trained
from fedhpo.federations.remote.models import Arrays
from fedhpo.federations.remote.pool import PATIENT, PoolTransport
from fedhpo.parties.answers import Answers
from fedhpo.parties.rows import NodeRows
from fedhpo.parties.serving import Parties
from fedhpo.parties.trainee import Rows, Trainee, TraineeParty
from fedhpo.protocol.federation import Status, Work
from fedhpo.workers.place import InProcess, InWorkers, Place


class TraineeSuite:
    """The tests. `config` are hyperparameters under which it trains, `model` those of its shape."""

    config: ClassVar[Mapping[str, Any]] = {}
    model: ClassVar[Mapping[str, Any]] = {}

    def trainee(self) -> Trainee:
        """The trainee to be tested."""
        raise NotImplementedError

    def data(self) -> FederatedData:
        """Clients with rows that it can be trained on, three at least."""
        raise NotImplementedError

    def _rows(self, client: int = 0) -> Rows:
        return Rows(self.data(), client, client)

    def _first(self, seed: int = 3) -> dict[str, Any]:
        made = self.trainee().first(seed, **self.model)
        return {name: np.asarray(array, np.float32) for name, array in made.items()}

    def test_its_settings_are_fields_of_a_frozen_dataclass(self) -> None:
        """So that a study file can name them, and that a typo is refused."""
        trainee = self.trainee()
        assert vars(type(trainee))["__dataclass_params__"].frozen
        made: Any = type(trainee)
        assert trainee == made(**{one.name: getattr(trainee, one.name) for one in fields(made)})

    def test_it_can_be_sent_to_workers(self) -> None:
        """By pickle, as an equal one."""
        assert pickle.loads(pickle.dumps(self.trainee())) == self.trainee()

    def test_the_first_model_follows_from_the_seed(self) -> None:
        """The same arrays again, all of them finite."""
        one, two = self._first(), self._first()
        assert one
        assert one.keys() == two.keys()
        assert all(np.array_equal(one[name], two[name]) for name in one)
        assert all(np.isfinite(array).all() for array in one.values())

    def test_training_keeps_names_and_shapes_and_what_it_was_given(self) -> None:
        """And says how many rows it had."""
        before = self._first()
        given = {name: array.copy() for name, array in before.items()}
        trained = self.trainee().train(given, Task(0, config=self.config, seed=(1, 0)), self._rows())
        assert isinstance(trained, Trained)
        after: Any = trained.arrays
        assert {name: np.shape(array) for name, array in after.items()} == {
            name: array.shape for name, array in before.items()
        }
        assert all(np.array_equal(given[name], before[name]) for name in before)
        assert any(not np.array_equal(after[name], before[name]) for name in before)
        assert trained.train_size >= 1

    def test_the_same_task_gives_the_same_bits(self) -> None:
        """Whatever was trained before, and whatever numpy's own generator says."""
        task = Task(0, config=self.config, seed=(1, 0))
        found: list[dict[str, bytes]] = []
        for client in (0, 1, 0):
            np.random.seed(len(found))  # noqa: NPY002  a trainee must not depend on it
            after: Any = self.trainee().train(self._first(), task, self._rows(client)).arrays
            found.append({name: np.asarray(array, np.float32).tobytes() for name, array in after.items()})
        assert found[0] == found[2]

    def test_scores_are_numbers(self) -> None:
        """A loss or an accuracy, over some rows."""
        scored = self.trainee().evaluate(self._first(), Task(0, split="validation"), self._rows())
        assert isinstance(scored, Scored)
        assert scored.size >= 1
        assert not (math.isnan(scored.loss) and math.isnan(scored.accuracy))

    def test_rounds_in_workers_are_those_in_this_process(self) -> None:
        """Bit for bit, through the mailbox; no client fails."""
        found = [self._two_rounds(place) for place in (InProcess(), InWorkers(2))]
        assert found[0] == found[1]

    def _two_rounds(self, place: Place) -> bytes:
        pool = place.open(partial(_serve, self.trainee(), self.data()))
        transport = PoolTransport(lambda: pool, self.data().clients, closes=True)
        model = Arrays(self.trainee().first)
        with RemoteFederation(transport, model, clients=self.data().clients, **PATIENT) as federation:
            federation.start(0, self.model, seed=1)
            for _ in range(2):
                [report] = federation.round([Work(0, [0, 1, 2], self.config)])
                assert (report.status == Status.OK).all(), dict(report.reasons)
            return bytes(federation.state(0).arrays["weights"].tobytes())


def _serve(trainee: Trainee, data: FederatedData) -> Parties:
    return Parties(Answers(TraineeParty(trainee, NodeRows(lambda: data, None)), {}, lambda: 0.0))

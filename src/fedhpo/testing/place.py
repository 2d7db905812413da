"""What every place must do, as tests to inherit from.

A place of your own passes if this class, in a file that pytest collects, passes:

    class TestMine(PlaceSuite):
        def place(self) -> Place:
            return Mine()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.federations.remote.learners import RemoteLearnerFederation
from fedhpo.federations.remote.pool import PATIENT, PoolTransport
from fedhpo.learners.paper import XGBOOST
from fedhpo.parties.answers import Answers
from fedhpo.parties.learners import LearnerFederation
from fedhpo.parties.rows import NodeRows
from fedhpo.parties.serving import Parties
from fedhpo.parties.trees import TreesParty
from fedhpo.protocol.federation import Work
from fedhpo.protocol.reasons import Why
from fedhpo.testing.parties import party_data
from fedhpo.workers.place import Place
from fedhpo.workers.pool import Ended, Handler, Pool


class PlaceSuite:
    """The tests."""

    def place(self) -> Place:
        """The place to be tested."""
        raise NotImplementedError

    @contextmanager
    def _opened(self) -> Iterator[Pool[Any]]:
        pool = self.place().open(partial(_serve, 2))
        try:
            yield pool
        finally:
            pool.close()

    def test_its_settings_are_fields_of_a_frozen_dataclass(self) -> None:
        """So that a study file can name them, and that a typo is refused."""
        place = self.place()
        assert vars(type(place))["__dataclass_params__"].frozen
        made: Any = type(place)
        assert place == made(**{one.name: getattr(place, one.name) for one in fields(made)})

    def test_every_job_ends_once_with_its_own_value(self) -> None:
        """More jobs than any pool has workers, each known by its ticket."""
        with self._opened() as pool:
            tickets = {pool.submit(job): job for job in range(40)}
            ended = [_next(pool) for _ in tickets]
        assert len(tickets) == 40
        assert {one.ticket: one.value for one in ended} == {t: 2 * job for t, job in tickets.items()}
        assert all(one.job == tickets[one.ticket] and one.failure is None for one in ended)

    def test_a_job_that_raises_fails_alone(self) -> None:
        """Its failure is a reason."""
        with self._opened() as pool:
            bad, good = pool.submit("bad"), pool.submit(3)
            ended = {one.ticket: one for one in (_next(pool), _next(pool))}
        assert ended[good].value == 6
        failure = ended[bad].failure
        assert failure is not None
        assert failure.why == Why.RAISED

    def test_jobs_may_come_while_others_are_under_way(self) -> None:
        """As in trainings of several trips."""
        with self._opened() as pool:
            values, left = [], 10
            pool.submit(1)
            while left:
                values.append(_next(pool).value)
                left -= 1
                if left:
                    pool.submit(values[-1])
        assert values == [2**power for power in range(1, 11)]

    def test_cancelled_jobs_are_not_heard_of(self) -> None:
        """What comes next is what was not cancelled."""
        with self._opened() as pool:
            gone = [pool.submit(job) for job in range(5)]
            pool.cancel(gone)
            kept = pool.submit(7)
            assert _next(pool).ticket == kept

    def test_trees_grown_there_are_those_grown_in_this_process(self) -> None:
        """A whole federated training, bit for bit."""
        data = party_data(parties=3, count=30)
        config = {"max_iter": 4, "min_samples_leaf": 2}
        pool = self.place().open(_serve_trees)
        transport = PoolTransport(lambda: pool, 3, closes=True)
        with (
            LearnerFederation(data, XGBOOST, training="bagging", workers=0) as here,
            RemoteLearnerFederation(transport, clients=3, weight_cap=Aggregation().cap, **PATIENT) as there,
        ):
            found = []
            for federation in (here, there):
                federation.start(0, {}, seed=1)
                [report] = federation.round([Work(0, [0, 1, 2], config)])
                assert report.applied, dict(report.reasons)
                found.append(federation.state(0).arrays["booster"].tobytes())
        assert found[0] == found[1]


def _next(pool: Pool[Any]) -> Ended[Any]:
    done = pool.next()
    assert done is not None
    return done


def _serve(factor: int) -> Handler[Any]:
    return partial(_times, factor)


def _times(factor: int, job: Any) -> Any:
    if not isinstance(job, int):
        raise ValueError(f"no such job: {job}")
    return factor * job


def _serve_trees() -> Parties:
    data = party_data(parties=3, count=30)
    return Parties(Answers(TreesParty(XGBOOST, NodeRows(lambda: data, None)), {}, lambda: 0.0))

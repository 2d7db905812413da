"""What every client policy must do, as tests to inherit from.

A policy of your own passes if this class, in a file that pytest collects, passes:

    class TestMine(PolicySuite):
        def policy(self) -> ClientPolicy:
            return Mine()
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.methods import Tuner
from fedhpo.protocol import federation as protocol
from fedhpo.protocol.federation import AFTER, BEFORE, PRODUCTS, Work
from fedhpo.protocol.policy import ClientPolicy, LearningState, PolicyState, ServerState, TimedState
from fedhpo.schedules import FixedLength
from fedhpo.space import Float, Ordinal, Space
from fedhpo.space.config import Config
from fedhpo.testing.runs import facts_of, plain_settings, stopped_at_every_event
from fedhpo.testing.toy import ToyFederation
from fedhpo.tuning.tune import tune

SPACE = Space(
    client={"lr": Float(1e-3, 10.0, log=True), "batch_size": Ordinal([8, 16, 32])}, server={"lr": 1.0}
)
CAPABILITIES = {
    protocol.CLIENT_CONFIGS,
    protocol.FORK,
    protocol.MIX,
    protocol.PRODUCTS,
    protocol.QUERY,
    protocol.REPEATABLE,
    protocol.SCORES_IN_ROUND,
}


class PolicySuite:
    """Inherit, and say which policy; `begun` may give it what it learns before a search (`prepare`)."""

    rounds, cohort = 6, 5
    space = SPACE

    def policy(self) -> ClientPolicy:
        """The policy under test, as a user makes it."""
        raise NotImplementedError

    def begun(self) -> ClientPolicy:
        """The policy, ready for a trial to begin."""
        return self.policy()

    def _begin(self, seed: int = 0) -> PolicyState:
        return self.begun().begin(self.space.default(), self.space, stream(seed, "policy"))

    def _played(self, state: PolicyState, trial: int = 0, **toy: Any) -> list[Any]:
        """What the policy assigns in the rounds of a trial, as JSON-able data."""
        policy, found = self.begun(), []
        with ToyFederation(clients=9, **toy) as federation:
            federation.start(trial, {}, seed=1)
            for number in range(self.rounds):
                rng = np.random.default_rng([trial, number])
                # Cohorts need not always be of one size.
                cohort = rng.choice(9, self.cohort - number % 2, replace=False).tolist()
                if isinstance(state, TimedState):
                    state.at(number)
                client = state.assign(cohort, rng)
                server = state.server({"lr": 1.0}) if isinstance(state, ServerState) else {"lr": 1.0}
                work = Work(trial, cohort, client, server, policy.scores, products=PRODUCTS in policy.needs)
                found.append(work.to_dict())
                [report] = federation.round([work])
                if report.applied:
                    state.learn(report)
        return found

    def test_it_says_what_it_needs(self) -> None:
        policy = self.policy()
        assert policy.needs <= CAPABILITIES
        assert set(policy.scores) <= {BEFORE, AFTER}

    def test_what_clients_get_lies_in_the_space(self) -> None:
        state, rng = self._begin(), np.random.default_rng(0)
        given = state.assign([3, 5, 8], rng)
        if isinstance(given, Mapping):
            given = [given] * 3
        if not isinstance(given, Sequence):
            given = [given.resolve(np.array([0, 0, 1]), 10) for _ in range(3)]
        assert len(given) == 3
        for client in given:
            self.space.validate(Config(client=client, server={"lr": 1.0}))

    def test_the_same_reports_make_the_same_policy(self) -> None:
        """A resumed run builds a policy's state again, from recorded reports."""
        assert self._played(self._begin()) == self._played(self._begin())
        json.dumps(self._played(self._begin()))

    def test_trials_know_nothing_of_each_other(self) -> None:
        policy = self.begun()
        first, second = (
            policy.begin(self.space.default(), self.space, stream(0, "policy", trial)) for trial in (0, 1)
        )
        alone = policy.begin(self.space.default(), self.space, stream(0, "policy", 1))
        self._played(first)
        assert self._played(second) == self._played(alone)

    def test_clients_that_fail_are_no_error(self) -> None:
        found = self._played(self._begin(), missing=0.4, failing=0.4)
        assert len(found) == self.rounds

    def test_what_it_learned_can_be_reported(self) -> None:
        state = self._begin()
        self._played(state)
        if isinstance(state, LearningState):
            json.dumps(state.history())
            self.space.validate(state.deployed(self.space.default()))

    def test_a_run_that_is_stopped_at_every_event_ends_the_same(self, tmp_path: Path) -> None:
        tuner = Tuner(FixedLength(2), policy=self.policy())
        budget: dict[str, Any] = {"rounds": self.rounds, "total": 2 * self.rounds, "cohort": self.cohort}
        found = stopped_at_every_event(
            ToyFederation(missing=0.1), self.space, tuner, tmp_path / "run", **budget
        )
        whole = tune(ToyFederation(missing=0.1), self.space, tuner, **budget)
        assert facts_of(found) == facts_of(whole)

    def test_its_settings_are_plain_data(self) -> None:
        assert plain_settings(self.policy()) == plain_settings(self.policy())

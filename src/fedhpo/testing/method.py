"""What every method must do, as tests to inherit from.

A method of your own passes if this class, in a file that pytest collects, passes:

    class TestMine(MethodSuite):
        def method(self) -> Method:
            return Mine()
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner
from fedhpo.privacy.privacy import MECHANISMS, Privacy
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.method import Method
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.research.tables.replay import replay
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.search import cohort_of
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.testing.runs import CONDITIONAL, PLAIN, facts_of, simulated, stopped_at_every_event
from fedhpo.testing.table import toy_table
from fedhpo.testing.toy import ToyFederation
from fedhpo.tuning.result import Result
from fedhpo.tuning.setup import prepare
from fedhpo.tuning.tune import tune


class MethodSuite:
    """Inherit, and say which method; its budget, spaces and federations may be others.

    What a method cannot do (privacy, a table) it must refuse with an `InputError` that names it.
    """

    rounds, total, cohort = 4, 24, 3
    #: With hyperparameters that depend on others, and one that simulated clients understand.
    space: Space = CONDITIONAL
    plain: Space = PLAIN
    #: Whether it spends what it plans; not so where a trial's length depends on what is learned.
    exact = True

    def method(self) -> Method | Tuner:
        """The method under test."""
        raise NotImplementedError

    def federation(self, **options: Any) -> Federation:
        """A federation that trains in no time; `options` are those of `ToyFederation`."""
        return ToyFederation(**options)

    def simulated(self, workers: int) -> Federation:
        """A simulated federation with so many workers."""
        return simulated(workers)

    @property
    def _budget(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "total": self.total, "cohort": self.cohort, "seed": 1}

    def _tuned(
        self, federation: Federation | None = None, space: Space | None = None, **options: Any
    ) -> Result:
        given = self.federation() if federation is None else federation
        return tune(given, space or self.space, self.method(), **{**self._budget, **options})

    def _refused(self, error: InputError) -> None:
        assert self.method().name in str(error), f"the refusal does not name the method: {error}"

    def test_the_budget_is_kept_exactly(self) -> None:
        prepared = prepare(self.federation(), self.space, self.method(), **self._budget)
        planned = prepared.method.rounds(prepared.search)
        assert 0 < planned <= self.total
        found = self._tuned()
        spent = found.cost["rounds"]
        assert spent == planned if self.exact else spent <= self.total
        assert found.facts["best"]["validation"]["round"] == found.facts["best"]["rounds"]

    def test_a_budget_that_is_too_small_is_refused_before_anything_happens(self, tmp_path: Path) -> None:
        with pytest.raises(InputError):
            self._tuned(total=self.rounds - 1, run=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_a_run_that_is_stopped_at_every_event_ends_the_same(self, tmp_path: Path) -> None:
        found = stopped_at_every_event(
            self.federation(missing=0.1), self.space, self.method(), tmp_path / "run", **self._budget
        )
        assert facts_of(found) == facts_of(self._tuned(self.federation(missing=0.1)))

    def test_the_same_call_on_a_finished_run_gives_its_result(self, tmp_path: Path) -> None:
        first = self._tuned(run=tmp_path / "run")
        assert facts_of(self._tuned(run=tmp_path / "run")) == facts_of(first)

    def test_a_table_replays_it_or_it_refuses(self) -> None:
        table = toy_table(configs=16, rounds=9, clients=5, total=90)
        try:
            found = replay(table, self.method())
        except InputError as error:
            self._refused(error)
            return
        assert found.rounds <= 90
        recorded = tune(
            TabularFederation(table),
            table.space,
            self.method(),
            rounds=9,
            total=90,
            cohort=cohort_of(table.study.file.budget.cohort, len(table.train_clients)),
            objective=table.study.objective,
        )
        assert recorded.cost["rounds"] == found.rounds

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_it_works_with_private_scores_or_refuses(self, mechanism: Any, tmp_path: Path) -> None:
        evaluation = Evaluator(privacy=Privacy(epsilon=20.0, mechanism=mechanism))
        try:
            found = self._tuned(evaluation=evaluation, run=tmp_path / "run")
        except InputError as error:
            self._refused(error)
            assert not (tmp_path / "run").exists()
            return
        assert 0 <= found.facts["privacy"]["epsilon_spent"] <= 20.0 * (1 + 1e-9)
        assert found.status == "finished"

    def test_clients_that_fail_are_no_error(self) -> None:
        found = self._tuned(self.federation(missing=0.2, failing=0.2))
        assert found.status == "finished"
        assert found.cost["rounds"] <= self.total
        assert found.facts["failures"]

    def test_configs_keep_the_conditions_of_the_space(self) -> None:
        for trial in self._tuned().facts["trials"]:
            config = Config.from_dict(trial["config"])
            self.space.validate(config if config.client else self._filled(config))

    def _filled(self, config: Config) -> Config:
        """A config whose client hyperparameters are each client's own (a rule)."""
        return config.replace(client=self.space.default().client)

    def test_the_number_of_workers_changes_nothing(self) -> None:
        alone, side_by_side = (
            facts_of(self._tuned(self.simulated(workers), self.plain)) for workers in (0, 2)
        )
        assert alone == side_by_side

    def test_its_settings_are_plain_data_and_change_nothing_by_themselves(self) -> None:
        method = self.method()
        assert json.loads(json.dumps(method.to_dict())) is not None
        assert " at 0x" not in json.dumps(method.to_dict())
        assert dataclasses.is_dataclass(method)
        assert method.to_dict() == self.method().to_dict()

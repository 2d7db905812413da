"""What every schedule must do, as tests to inherit from.

A schedule of your own passes if this class, in a file that pytest collects, passes:

    class TestMine(ScheduleSuite):
        def schedule(self) -> Schedule:
            return Mine()
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner
from fedhpo.privacy.privacy import MECHANISMS, Privacy
from fedhpo.protocol.schedule import Schedule
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.trial import FAILED
from fedhpo.space import Choice, Int, Space
from fedhpo.testing.runs import CONDITIONAL, facts_of, plain_settings, stopped_at_every_event
from fedhpo.testing.toy import ToyFederation
from fedhpo.tuning.result import Result
from fedhpo.tuning.setup import prepare
from fedhpo.tuning.tune import tune

#: Six configs in all.
SMALL = Space(client={"epochs": Int(1, 3)}, server={"optimiser": Choice(["sgd", "adam"])})


class ScheduleSuite:
    """Inherit, and say which schedule; its budget may be another."""

    rounds, total, cohort = 6, 40, 3

    def schedule(self) -> Schedule:
        """The schedule under test."""
        raise NotImplementedError

    def _tuned(self, space: Space = CONDITIONAL, **options: Any) -> Result:
        given = {"federation": ToyFederation(), **self._budget, **options}
        return tune(given.pop("federation"), space, Tuner(self.schedule()), **given)

    @property
    def _budget(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "total": self.total, "cohort": self.cohort, "seed": 1}

    def test_it_spends_the_rounds_that_it_plans(self) -> None:
        prepared = prepare(ToyFederation(), CONDITIONAL, Tuner(self.schedule()), **self._budget)
        planned = prepared.method.rounds(prepared.search)
        assert 0 < planned <= self.total
        assert prepared.search.trials == []  # a plan starts nothing
        plain = self._tuned()
        # Trial 0 is the user's own config, which is tried first.
        assert plain.cost["rounds"] == planned

    def test_a_total_that_pays_for_no_training_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"\d+"):
            self._tuned(total=self.rounds - 1)

    def test_the_best_is_trained_to_the_end_and_scored_there(self) -> None:
        best = self._tuned().facts["best"]
        assert best["rounds"] == best["validation"]["round"] == self.rounds

    def test_the_own_config_comes_first(self) -> None:
        assert self._tuned().facts["trials"][0]["config"] == CONDITIONAL.default().to_dict()

    def test_the_seed_decides_all(self) -> None:
        assert facts_of(self._tuned()) == facts_of(self._tuned())

    def test_a_small_space_is_no_error(self) -> None:
        found = self._tuned(SMALL)
        assert found.status == "finished"
        assert found.cost["rounds"] <= self.total

    def test_the_total_is_kept_where_clients_fail(self) -> None:
        for seed in range(3):
            toy = ToyFederation(missing=0.3, failing=0.3, seed=seed)
            found = self._tuned(federation=toy, seed=seed)
            assert found.cost["rounds"] <= self.total
            assert any(trial["status"] != FAILED for trial in found.facts["trials"])

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_private_scores_will_do(self, mechanism: Any) -> None:
        privacy = Privacy(epsilon=50.0, mechanism=mechanism)
        found = self._tuned(evaluation=Evaluator(privacy=privacy))
        assert found.status == "finished"
        assert found.facts["privacy"]["epsilon_spent"] == pytest.approx(50.0)

    def test_a_run_that_is_stopped_at_every_event_ends_the_same(self, tmp_path: Path) -> None:
        method, toy = Tuner(self.schedule()), ToyFederation(missing=0.1)
        found = stopped_at_every_event(toy, CONDITIONAL, method, tmp_path / "run", **self._budget)
        assert facts_of(found) == facts_of(self._tuned(federation=ToyFederation(missing=0.1)))

    def test_its_settings_are_plain_data(self) -> None:
        assert plain_settings(self.schedule()) == plain_settings(self.schedule())

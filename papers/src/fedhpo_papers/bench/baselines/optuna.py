"""Optuna's samplers with its pruners (Akiba et al., 2019): one trial after the other, each may be stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.policies import Fixed
from fedhpo.protocol.method import Method
from fedhpo.samplers import OptunaSampler
from fedhpo.schedules import Hyperband

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: Trials are scored so often where a pruner has no rungs of its own.
_LOOKS = 9


@dataclass(frozen=True)
class OptunaPruned(Method):
    """A sampler of Optuna and one of its pruners, by their names there; what is pruned is never resumed."""

    sampler: str = "TPESampler"
    pruner: str = "MedianPruner"

    name: ClassVar[str] = "optuna-pruned"

    def rounds(self, search: Search) -> int:
        """All of the total."""
        if search.evaluator.privacy is not None:
            raise InputError(
                f"{self.pruner}: how many scores it takes depends on the scores, so that epsilon cannot be "
                "split over them beforehand"
            )
        if search.total < search.rounds:
            raise InputError(
                f"a total of {search.total} rounds does not pay for one training of {search.rounds}"
            )
        return search.total

    def run(self, search: Search) -> Trial:
        """Trial after trial, as long as one more could be trained to the end."""
        optuna = _optuna()
        ends = self._ends(search.rounds)
        study = optuna.create_study(pruner=self._pruner(optuna, ends), study_name=f"bench {search.seed}")
        sampler = OptunaSampler(self.sampler)
        while search.total - search.ledger.cost.rounds >= search.rounds:
            started = search.start(1, sampler, Fixed())
            if not started:
                break
            self._train(search, started[0], study, ends, optuna.trial.TrialState.PRUNED)
        return search.best()

    def _train(self, search: Search, trial: Trial, study: Any, ends: list[int], pruned: Any) -> None:
        asked = study.ask()
        for end in ends:
            search.train([trial], end)
            search.evaluate([trial])
            if trial.failed or not math.isfinite(trial.rank_value):
                break
            asked.report(trial.rank_value, end)
            if end < ends[-1] and asked.should_prune():
                search.eliminate([trial])
                break
        whole = trial.training and trial.round == search.rounds and math.isfinite(trial.rank_value)
        if whole:
            search.finish([trial])
            study.tell(asked, trial.rank_value)
        else:
            study.tell(asked, state=pruned)

    def _ends(self, rounds: int) -> list[int]:
        """At which rounds a trial is scored."""
        if self.pruner == "MedianPruner":
            return sorted({max(1, round(rounds * look / _LOOKS)) for look in range(1, _LOOKS + 1)})
        return list(Hyperband().brackets(rounds)[0].ends)

    def _pruner(self, optuna: Any, ends: list[int]) -> Any:
        if self.pruner == "MedianPruner":
            return optuna.pruners.MedianPruner()
        if self.pruner == "HyperbandPruner":
            return optuna.pruners.HyperbandPruner(min_resource=ends[0], max_resource=ends[-1])
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=ends[0], reduction_factor=3)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("optuna", "optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna

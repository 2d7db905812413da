"""Which clients a score comes from, and how a trial's scores become the one that counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from fedhpo._settings import check_settings
from fedhpo.engine.streams import stream
from fedhpo.errors import InputError, unknown_name
from fedhpo.evaluation.objective import Score
from fedhpo.evaluation.privacy import Privacy
from fedhpo.federation.protocol import Federation, Floats, Ints, Scores

#: Added to an accuracy, so that a client that gets nothing right may still take part.
_LEAST = 1e-4


@dataclass(frozen=True)
class Evaluator:
    """How a score is observed: at which clients, from how many evaluations, with which privacy.

    `clients` is a number of validation clients, a share of them in (0, 1), or None for all; they are drawn
    anew, without replacement, for every evaluation. `paired` asks the same clients about all trials of
    an evaluation, otherwise each trial has its own draw. With `average = "mean"` a trial's score is the
    plain mean of all its evaluations so far, each counting the same; "last" takes the latest only.

    `bias` is for simulation: a client takes part with a probability proportional to
    `(accuracy + 0.0001)^bias`, its accuracy being that of the model under evaluation, as where better
    devices reply more often. All clients are scored to know it, and are charged. The standard error is then
    what a server that knows nothing of the bias would compute: it covers the spread, not the bias.

    `privacy` lets only paid, noisy values out; see `Privacy`.

    `personalised` asks at the end, for the report only, what the best model is worth after it was fine-tuned
    at each client with the tuned client hyperparameters; see `fedhpo.evaluation.personal`.
    """

    clients: int | float | None = None
    paired: bool = True
    average: Literal["last", "mean"] = "last"
    bias: float = 0.0
    privacy: Privacy | None = None
    personalised: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        wanted = self.clients
        if wanted is not None:
            if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not wanted > 0:
                raise InputError(f"evaluation clients must be a number or a share of clients, not {wanted!r}")
            if isinstance(wanted, float) and wanted > 1:
                raise InputError(f"evaluation clients, as a share, must lie in (0, 1], not {wanted!r}")
        if self.average not in ("last", "mean"):
            raise unknown_name("average", self.average, ["last", "mean"])
        if not 0 <= self.bias < math.inf:
            raise InputError(f"bias must be a number of at least 0, not {self.bias!r}")
        if self.bias and wanted is None:
            raise InputError(f"bias = {self.bias:g} needs clients: where all are asked, nobody is drawn")
        if self.privacy is not None:
            self._check_privacy(self.privacy)

    def _check_privacy(self, privacy: Privacy) -> None:
        if self.average == "mean" and not privacy.releases_values:
            raise InputError(
                f"average = 'mean' needs values, and mechanism = {privacy.mechanism!r} releases none: "
                "use mechanism = 'laplace'"
            )
        if self.personalised:
            raise InputError("personalised scores are not private: they cannot go with privacy")
        if self.bias and privacy.release == "exact":
            raise InputError("bias is for simulation; it cannot go with release = 'exact'")

    def count(self, population: int) -> int:
        """How many of `population` clients are asked.

        >>> Evaluator(clients=0.25).count(10), Evaluator().count(10)
        (2, 10)
        """
        if self.clients is None:
            return population
        wanted = self.clients if isinstance(self.clients, int) else max(1, round(self.clients * population))
        if wanted > population:
            raise InputError(f"evaluation asks for {wanted} clients; only {population} hold validation data")
        return wanted

    def draw(
        self, validation_clients: Ints, rng: np.random.Generator, accuracy: Floats | None = None
    ) -> Ints:
        """The clients of one evaluation, in ascending order; a biased draw needs everybody's accuracy.

        >>> Evaluator(clients=0.5).draw(np.arange(4), np.random.default_rng(0))
        array([2, 3])
        """
        if self.clients is None:
            return validation_clients
        count = self.count(len(validation_clients))
        if not self.bias:
            return np.sort(rng.choice(validation_clients, count, replace=False))
        if accuracy is None:
            raise InputError("a biased draw needs the accuracy of every validation client")
        # One client after the other, in proportion to weight, is the order in which clocks of these rates
        # ring. With the same clocks for all trials a biased draw is still paired.
        weights = (np.nan_to_num(accuracy) + _LEAST) ** self.bias
        clocks = rng.exponential(size=len(validation_clients)) / weights
        return np.sort(validation_clients[np.argsort(clocks, kind="stable")[:count]])

    def ask(
        self, federation: Federation, trials: Sequence[int], seed: int, *purpose: int | str
    ) -> list[Scores]:
        """The scores of each trial at the clients that were drawn for it."""
        population = federation.validation_clients

        def rng(trial: int) -> np.random.Generator:
            return stream(seed, *purpose) if self.paired else stream(seed, *purpose, trial)

        if self.bias:
            everybody = federation.evaluate(trials, population)
            return [_at(s, self.draw(population, rng(s.trial), s.accuracy)) for s in everybody]
        if self.paired or self.clients is None:
            return federation.evaluate(trials, self.draw(population, rng(0)))
        return [federation.evaluate([trial], self.draw(population, rng(trial)))[0] for trial in trials]

    def combine(self, observed: Sequence[Score]) -> Score:
        """The score that counts, out of a trial's scores so far.

        Evaluations draw clients and noise independently, so variances add up.

        >>> Evaluator(average="mean").combine([Score(0.4, 0.3, 5, 10, -0.4), Score(0.6, 0.4, 5, 20, -0.6)])
        Score(value=0.5, standard_error=0.25, clients=5, round=20, rank_value=-0.5)
        """
        latest = observed[-1]
        known = [score for score in observed if math.isfinite(score.rank_value)]
        if self.average == "last" or not math.isfinite(latest.rank_value):
            return latest
        return replace(
            latest,
            value=math.fsum(score.value for score in known) / len(known),
            standard_error=math.hypot(*(score.standard_error for score in known)) / len(known),
            rank_value=math.fsum(score.rank_value for score in known) / len(known),
        )

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
        return asdict(self)


def _at(scores: Scores, clients: Ints) -> Scores:
    """The scores at some of the clients only."""
    places = np.flatnonzero(np.isin(scores.clients, clients))
    reasons = {new: scores.reasons[old] for new, old in enumerate(places.tolist()) if old in scores.reasons}
    columns = ("clients", "status", "size", "loss", "accuracy")
    return replace(scores, reasons=reasons, **{name: getattr(scores, name)[places] for name in columns})

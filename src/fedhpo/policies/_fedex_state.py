"""FedEx in one trial: a distribution over its arms, and how a round moves it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.config import Config
from fedhpo.federation.protocol import Floats, RoundReport
from fedhpo.policies._baseline import Baseline
from fedhpo.policies._elimination import Elimination
from fedhpo.policies._scores import member_scores
from fedhpo.policies._steps import Steps
from fedhpo.policies.fedex_settings import FedExSettings
from fedhpo.policies.landmarks import Landmark, in_order
from fedhpo.policies.learned import LearnedPolicy, softmax


class FedExState:
    """One trial's distribution over its arms."""

    def __init__(
        self, settings: FedExSettings, start: LearnedPolicy, landmarks: Sequence[Landmark] = ()
    ) -> None:
        self.arms = start.arms
        self._settings = settings
        self._log_weights: Floats = np.log(start.weights)
        self._steps = Steps(settings.steps, len(self.arms))
        self._baseline = Baseline(settings.baseline, settings.gamma)
        self._elimination = Elimination(len(self.arms), settings.eliminate)
        ranked = sorted(landmarks, key=lambda landmark: landmark.value)
        self._landmarks = [self.arms.index(one.client) for one in ranked if one.client in self.arms]
        self._drawn: tuple[NDArray[np.intp], Floats] | None = None
        self._draws = 0
        self._past: list[dict[str, Any]] = []
        self._note(0, [])

    # What is known of the arms

    @property
    def weights(self) -> Floats:
        """The distribution over the arms; 0 for those that were eliminated."""
        return softmax(np.where(self._elimination.alive, self._log_weights, -np.inf))

    @property
    def log_weights(self) -> Floats:
        """For ranking the arms: finite, and lowest for those that were eliminated."""
        return self._elimination.below(self._log_weights)

    @property
    def stopped(self) -> bool:
        """Whether exploration has ended: the entropy is below the cutoff."""
        return entropy_of(self.weights) < self._settings.cutoff

    @property
    def best(self) -> int:
        """The arm with most weight, the first of several."""
        return int(np.argmax(self.weights))

    # A round

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> list[Mapping[str, Any]]:
        """An arm for each member, drawn independently."""
        self._draws += len(cohort)
        chances = self._chances()
        drawn = rng.choice(len(self.arms), len(cohort), p=chances)
        self._drawn = drawn, chances
        return [self.arms[arm] for arm in drawn]

    def _chances(self) -> Floats:
        """The probability of each arm to be drawn: theta, mixed with the uniform distribution."""
        if self.stopped:
            only: Floats = np.eye(len(self.arms))[self.best]
            return only
        alive, share = self._elimination.alive, self._settings.explore
        if share == "auto":
            share = exploration(len(self.arms), self._draws)
        mixed: Floats = (1 - share) * self.weights + share * alive / alive.sum()
        return mixed

    def learn(self, report: RoundReport) -> None:
        """Move the weights by what the members that replied say of their arms."""
        if self._drawn is None:
            raise RuntimeError("learn was called before assign")
        (drawn, chances), self._drawn = self._drawn, None
        settings = self._settings
        scores = member_scores(report, settings.metric, settings.difference, settings.clip)
        if scores is not None and not self.stopped:
            baseline = self._baseline.value(scores.pretrain)
            arms = drawn[scores.members]
            if baseline is not None:
                gains = scores.values - baseline
                self._update(arms, gains, scores.size, chances)
                self._elimination.see(arms, gains)
            self._baseline.add(scores.mean)
        self._note(report.round, drawn.tolist())

    def _update(self, arms: NDArray[np.intp], gains: Floats, size: Floats, chances: Floats) -> None:
        """Algorithm 2, lines 13 to 15: an unbiased gradient, and a step along it in log theta."""
        sums = np.bincount(arms, size * gains, len(self.arms))
        gradient = np.divide(sums, chances * size.sum(), out=np.zeros(len(self.arms)), where=sums != 0)
        step = self._steps.size(gradient)
        # With the entropy in the objective, the mirror step has this closed form.
        moved = (self._log_weights - step * gradient) / (1 + step * self._settings.entropy)
        if len(self._landmarks) > 1:
            moved = in_order(moved, self._landmarks)
        self._log_weights = moved - moved.max() - np.log(np.exp(moved - moved.max()).sum())

    def _note(self, number: int, drawn: list[int]) -> None:
        log_weights = [round(value, 6) for value in self.log_weights.tolist()]
        self._past.append({"round": number, "log_weights": log_weights, "drawn": drawn})

    # What comes of it

    @property
    def learned(self) -> LearnedPolicy:
        """The distribution as it stands, without the arms that were eliminated."""
        alive = np.flatnonzero(self._elimination.alive)
        return LearnedPolicy(tuple(self.arms[arm] for arm in alive), tuple(self._log_weights[alive].tolist()))

    def deployed(self, config: Config) -> Config:
        """The config with the client hyperparameters of the arm with most weight."""
        return config.replace(client=self.arms[self.best])

    def history(self) -> dict[str, Any]:
        """The policy over time, JSON-able: the arms, and for each round the log weights after it and the
        arms that its cohort drew."""
        return {
            "arms": [Config(client=arm).to_dict().get("client", {}) for arm in self.arms],
            "best": self.best,
            "weights": self.weights.tolist(),
            "landmarks": list(self._landmarks),
            "eliminated": list(self._elimination.order),
            "rounds": self._past,
        }


def exploration(arms: int, draws: int) -> float:
    """The share of uniform draws that Auer et al. (2002, Corollary 3.2) take for so many draws in all.

    >>> round(exploration(27, 4), 3), round(exploration(27, 1000), 3)
    (1.0, 0.228)
    """
    return min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1) * draws)))


def entropy_of(weights: Floats) -> float:
    """The entropy of a distribution, in nats.

    >>> entropy_of(np.array([0.5, 0.5, 0.0])) == math.log(2)
    True
    """
    some = weights[weights > 0]
    return float(-(some * np.log(some)).sum())

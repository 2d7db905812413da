"""FedEx in one trial: a distribution over its arms, and how a round moves it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.methods.fedex.baseline import Baseline
from fedhpo.methods.fedex.elimination import Elimination
from fedhpo.methods.fedex.landmarks import Landmark, in_order
from fedhpo.methods.fedex.learned import LearnedPolicy, softmax
from fedhpo.methods.fedex.scores import member_scores
from fedhpo.methods.fedex.settings import FedExSettings
from fedhpo.methods.fedex.steps import Steps
from fedhpo.methods.fedex.unit_scores import Range
from fedhpo.policies.sums import GroupScores
from fedhpo.protocol.federation import Floats, RoundReport
from fedhpo.space.config import Config

#: The steepest gradient that counts.
_STEEPEST = 1e140


class FedExState:
    """One trial's distribution over its arms."""

    def __init__(
        self,
        settings: FedExSettings,
        start: LearnedPolicy,
        landmarks: Sequence[Landmark] = (),
        learns: int | None = None,
    ) -> None:
        self.arms = start.arms
        self._settings, self._learns = settings, learns
        self._log_weights: Floats = np.log(start.weights)
        self._steps = Steps(settings.steps, len(self.arms))
        self._baseline = Baseline(settings.baseline, settings.gamma)
        self._elimination = Elimination(len(self.arms), settings.eliminate)
        ranked = sorted(landmarks, key=lambda landmark: landmark.value)
        self._landmarks = [self.arms.index(one.client) for one in ranked if one.client in self.arms]
        self._drawn: tuple[NDArray[np.intp], Floats] | None = None
        self._draws = 0
        self._counts = np.zeros(len(self.arms), dtype=np.int64)
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
        """Whether exploration has ended: it learned long enough, or the entropy is below the cutoff."""
        if self._learns is not None and len(self._past) > self._learns:  # before the first round there is one
            return True
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
        self._counts += np.bincount(drawn, minlength=len(self.arms))
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
                gains = (scores.values - baseline) * (scores.size / (scores.size + settings.shrink))
                sums: Floats = np.bincount(arms, scores.size * gains, len(self.arms)).astype(np.float64)
                self._update(sums, scores.size.sum(), chances)
                self._elimination.see(arms, gains)
            self._baseline.add(scores.mean)
        self._note(report.round, drawn.tolist())

    def _update(self, sums: Floats, size: float, chances: Floats) -> None:
        """Algorithm 2, lines 13 to 15: an unbiased gradient, and a step along it in log theta."""
        with np.errstate(over="ignore"):
            gradient = np.divide(sums, chances * size, out=np.zeros(len(self.arms)), where=sums != 0)
        # Of a huge loss at an arm that is hardly ever drawn: its square must still be a number.
        gradient = np.clip(gradient, -_STEEPEST, _STEEPEST)
        step = self._steps.size(gradient)
        # With the entropy in the objective, the mirror step has this closed form.
        moved = (self._log_weights - step * gradient) / (1 + step * self._settings.entropy)
        if len(self._landmarks) > 1:
            moved = in_order(moved, self._landmarks)
        self._log_weights = moved - moved.max() - np.log(np.exp(moved - moved.max()).sum())

    # A private round: weights are uniform, and only noisy means by arm are known

    @property
    def looks(self) -> int:
        """One for the sums, and one for a first baseline of scores before training."""
        if self.stopped:  # known from the weights, which were paid for
            return 0
        settings = self._settings
        return (
            2 if settings.baseline == "pretrain" and not settings.difference and self._baseline.empty else 1
        )

    def grouped(self, report: RoundReport, members: Sequence[int]) -> GroupScores:
        """These members' scores in [0, 1], by arm."""
        assert self._drawn is not None
        places = list(members)
        before = self._range.before(report)[places] if self.looks == 2 else None
        return GroupScores(self._drawn[0][places], self._range.after(report)[places], before)

    def learn_sums(
        self,
        report: RoundReport,
        members: Sequence[int],
        means: Mapping[int, float],
        before: float | None,
    ) -> None:
        """Move the weights by noisy means of the members' scores; every member counts the same."""
        if self._drawn is None:
            raise RuntimeError("learn_sums was called before assign")
        (drawn, chances), self._drawn = self._drawn, None
        if means:
            count = np.bincount(drawn[list(members)], minlength=len(self.arms)).astype(np.float64)
            scores = np.zeros(len(self.arms))
            for arm, mean in means.items():
                scores[arm] = self._range.value(mean)
            baseline = self._baseline.value(0.0 if before is None else self._range.value(before))
            if baseline is not None:
                self._update(count * (scores - baseline), count.sum(), chances)
            self._baseline.add(float((count * scores).sum() / count.sum()))
        self._note(report.round, drawn.tolist())

    @property
    def _range(self) -> Range:
        return Range(self._settings.metric, self._settings.clip, self._settings.difference)

    def _note(self, number: int, drawn: list[int]) -> None:
        log_weights = [round(value, 6) for value in self.log_weights.tolist()]
        self._past.append({"round": number, "log_weights": log_weights, "drawn": drawn})

    # What comes of it

    @property
    def counts(self) -> list[int]:
        """How often each arm was given to a client so far."""
        return [int(count) for count in self._counts]

    @property
    def learned(self) -> LearnedPolicy:
        """The distribution as it stands, without the arms that were eliminated."""
        alive = np.flatnonzero(self._elimination.alive)
        return LearnedPolicy(tuple(self.arms[arm] for arm in alive), tuple(self._log_weights[alive].tolist()))

    def deployed(self, config: Config) -> Config:
        """The config with the client hyperparameters of the arm with most weight."""
        return config.replace(client=self.arms[self.best])

    def history(self) -> dict[str, Any]:
        """The policy over time, JSON-able: the arms, how often each was drawn and how many ever were, and for
        each round the log weights after it and the arms that its cohort drew."""
        return {
            "arms": [Config(client=arm).to_dict().get("client", {}) for arm in self.arms],
            "best": self.best,
            "weights": self.weights.tolist(),
            "landmarks": list(self._landmarks),
            "eliminated": list(self._elimination.order),
            "counts": self.counts,
            "tried": sum(count > 0 for count in self.counts),
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

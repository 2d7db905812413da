"""Which clients a score comes from, and by which of their scores trials are compared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from fedhpo.core.claims import GIVEN, setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.core.streams import stream
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Floats, Ints, Scores
from fedhpo.protocol.objective import Objective, Score

#: Of a score's weight with `average = "recent"`, as a share of the rounds behind the latest score.
HALF_LIFE = 0.25

#: Added to an accuracy, so that a client that gets nothing right may still take part.
_LEAST = 1e-4


@dataclass(frozen=True)
class Evaluator:
    """How a score is observed: at which clients, from how many evaluations, with which privacy.

    `clients` is a number of validation clients, a share of them in (0, 1), or None for all; they are drawn
    anew, without replacement, for every evaluation. `paired` asks the same clients about all trials of
    an evaluation, otherwise each trial has its own; left out, clients are paired, but for private values with
    rotation, where n trials at the same clients cost n times as much. Trials are compared by their latest
    scores (`average = "last"`), or by weighted means of their scores at the rounds that all of them were
    scored at (`average = "recent"`), where a score of a quarter of the rounds ago counts half; see
    `compared`.

    `bias` is for simulation: a client takes part with a probability proportional to
    `(accuracy + 0.0001)^bias`, its accuracy being that of the model under evaluation, as where better
    devices reply more often. All clients are scored to know it, and are charged. The standard error is then
    what a server that knows nothing of the bias would compute: it covers the spread, not the bias.
    `bias_per` says whose accuracy that is. "trial": the model under evaluation's, so that every trial has
    other clients, and good models better ones (the paper's). "message": the mean over all trials of an
    evaluation, which travel in one message: whoever takes part replies about all of them. "client": the
    client's own, as it was when the run first scored it: some devices are always more likely to be there.

    `privacy` lets only paid, noisy values out; see `Privacy`.

    `choice` is how trials are compared where clients may lie: "mean", or "trimmed": by paired differences
    without the eighth of the clients at either end, from 8 replies on; see `fedhpo.search.paired`. Reported
    scores are means in both. Left out, it is "trimmed" where clients are real (Flower, NVFlare), not in a
    simulation, and not under privacy, where a mean is what is accounted for.

    `every` scores trials under way after so many rounds each, whatever the method: for callbacks, curves and
    the live page. The method does not see these scores, and chooses as without them.

    `personalised` asks at the end, for the report only, what the best model is worth after it was fine-tuned
    at each client with the tuned client hyperparameters; see `fedhpo.search.personal`.
    """

    clients: int | float | None = None
    paired: bool | None = setting(None, clients=GIVEN)
    average: Literal["last", "recent"] = "last"
    bias: float = 0.0
    bias_per: Literal["trial", "message", "client"] = setting("trial", bias=GIVEN)
    privacy: Privacy | None = None
    personalised: bool = False
    choice: Literal["mean", "trimmed"] | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        if str(self.average) == "mean":
            raise InputError(
                "average = 'mean' is gone: it compared trials by means over different rounds. "
                "Use 'recent', which compares them at equal rounds, or 'last'"
            )
        check_settings(self)
        wanted = self.clients
        if wanted is not None:
            if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not wanted > 0:
                raise InputError(f"evaluation clients must be a number or a share of clients, not {wanted!r}")
            if isinstance(wanted, float) and wanted > 1:
                raise InputError(f"evaluation clients, as a share, must lie in (0, 1], not {wanted!r}")
        if self.average not in ("last", "recent"):
            raise unknown_name("average", self.average, ["last", "recent"])
        if self.choice not in (None, "mean", "trimmed"):
            raise unknown_name("choice", self.choice, ["mean", "trimmed"])
        if self.every is not None:
            whole_number("every", self.every)
        if not 0 <= self.bias < math.inf:
            raise InputError(f"bias must be a number of at least 0, not {self.bias!r}")
        if self.bias and wanted is None:
            raise InputError(f"bias = {self.bias:g} needs clients: where all are asked, nobody is drawn")
        if self.bias_per not in ("trial", "message", "client"):
            raise unknown_name("bias_per", self.bias_per, ["trial", "message", "client"])
        if self.bias_per != "trial" and not self.bias:
            raise InputError(f"bias_per = {self.bias_per!r} needs bias: without it nobody is preferred")
        if self.bias_per != "trial" and self.paired is False:
            raise InputError(
                f"bias_per = {self.bias_per!r} asks the same clients about all trials, and paired = false "
                "others about each: leave one of them out"
            )
        if self.privacy is not None:
            self._check_privacy(self.privacy)

    def _check_privacy(self, privacy: Privacy) -> None:
        if self.average == "recent" and not privacy.releases_values:
            raise InputError(
                f"average = 'recent' needs values, and mechanism = {privacy.mechanism!r} releases none: "
                "use mechanism = 'laplace'"
            )
        if self.choice == "trimmed":
            raise InputError(
                "choice = 'trimmed' cannot go with privacy, which accounts for means: leave choice out"
            )
        if self.every is not None:
            raise InputError(
                "every cannot go with privacy, where each score costs epsilon: leave it out, or choose a "
                "method that scores trials on the way"
            )
        by_trial = bool(self.bias) and self.bias_per == "trial"
        if privacy.gap is not None and privacy.gapped and (self.paired is False or by_trial):
            raise InputError(
                f"gap = {privacy.gap!r} needs all trials at the same clients, and "
                f"{'bias by trial' if by_trial else 'paired = false'} asks others for each: leave one out"
            )
        if self.personalised:
            raise InputError("personalised scores are not private: they cannot go with privacy")
        if self.bias and privacy.release == "exact":
            raise InputError("bias is for simulation; it cannot go with release = 'exact'")
        if self.bias and privacy.rotates:
            raise InputError(
                f"bias = {self.bias:g} draws clients by their scores, and accounting = "
                f"{privacy.accounting!r} needs cohorts that depend on none: use accounting = 'basic'"
            )

    def pairs(self, *, values: bool = True) -> bool:
        """Whether all trials of an evaluation are scored at the same clients; `values`: not a choice only.

        >>> private = Evaluator(clients=3, privacy=Privacy(1.0))
        >>> Evaluator(clients=3).pairs(), private.pairs(), private.pairs(values=False)
        (True, False, True)
        """
        if self.paired is not None:
            return self.paired
        return not (values and self.clients is not None and self.privacy is not None and self.privacy.rotates)

    def shown(self, value: float) -> float:
        """A score as it is shown: noise may take a private one out of [0, 1]. Nothing is chosen by it.

        >>> Evaluator(privacy=Privacy(1.0)).shown(1.7), Evaluator().shown(1.7)
        (1.0, 1.7)
        """
        private = self.privacy is not None and math.isfinite(value)
        return min(1.0, max(0.0, value)) if private else value

    def trims(self, objective: Objective) -> bool:
        """Whether trials are compared by trimmed paired differences; an objective may be robust by itself.

        >>> trimmed = Evaluator(choice="trimmed")
        >>> trimmed.trims(Objective()), trimmed.trims(Objective(over="worst")), Evaluator().trims(Objective())
        (True, False, False)
        """
        return self.choice == "trimmed" and objective.over == "mean" and not objective.pooled

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
        self,
        evaluate: Callable[[Sequence[int], Ints], list[Scores]],
        population: Ints,
        trials: Sequence[int],
        seed: int,
        *purpose: int | str,
        seen: dict[int, float] | None = None,
    ) -> list[Scores]:
        """The scores that `evaluate` gives of each trial at the clients that were drawn for it.

        `seen` is each client's accuracy as it was first scored, which this adds to.
        """

        paired = self.pairs()

        def rng(trial: int) -> np.random.Generator:
            return stream(seed, *purpose) if paired else stream(seed, *purpose, trial)

        if self.bias:
            everybody = evaluate(trials, population)
            if self.bias_per != "trial":
                known = np.nan_to_num(np.mean([s.accuracy for s in everybody], axis=0))
                if self.bias_per == "client" and seen is not None:
                    for client, value in zip(population.tolist(), known.tolist(), strict=True):
                        seen.setdefault(client, value)
                    known = np.array([seen[client] for client in population.tolist()])
                drawn = self.draw(population, rng(0), known)
                return [_at(s, drawn) for s in everybody]
            return [_at(s, self.draw(population, rng(s.trial), s.accuracy)) for s in everybody]
        if paired or self.clients is None:
            return evaluate(trials, self.draw(population, rng(0)))
        return [evaluate([trial], self.draw(population, rng(trial)))[0] for trial in trials]

    def compared(self, trials: Sequence[Sequence[Score]]) -> list[Score]:
        """The score to compare each of several trials by; each comes with its scores so far, oldest first.

        With `average = "recent"` it is a mean over the rounds that all of the trials were scored at. A score
        counts half as much as one that is a quarter (`HALF_LIFE`) of the rounds so far younger. The latest
        score alone counts where it has no error (there is no noise to average out), and where the trials
        are not at the same round.

        >>> young = [Score(0.5, 0.1, 5, 80, -0.5)]
        >>> old = [Score(0.1, 0.1, 5, 40, -0.1), Score(0.7, 0.1, 5, 60, -0.7), Score(0.4, 0.1, 5, 80, -0.4)]
        >>> [score.value for score in Evaluator(average="recent").compared([young, old])]
        [0.5, 0.4]
        """
        latest = [scores[-1] for scores in trials]
        known = [scores for scores in trials if math.isfinite(scores[-1].rank_value)]
        if self.average == "last" or len({scores[-1].round for scores in known}) != 1:
            return latest
        rounds = [{s.round for s in scores if math.isfinite(s.rank_value)} for scores in known]
        common = frozenset.intersection(*map(frozenset, rounds))
        return [_recent(scores, common) for scores in trials]

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
        privacy = None if self.privacy is None else self.privacy.to_dict()
        values = self.privacy is None or self.privacy.releases_values
        facts = asdict(self) | {"paired": self.pairs(values=values), "privacy": privacy}
        if self.choice is None:  # as runs of versions without it have it
            del facts["choice"]
        if self.every is None:
            del facts["every"]
        if self.bias_per == "trial":
            del facts["bias_per"]
        return facts


def _recent(scores: Sequence[Score], rounds: Collection[int]) -> Score:
    """The mean of a trial's scores at these rounds, weighted by how recent they are.

    Evaluations draw clients and noise independently of each other, so variances add up.

    >>> _recent([Score(0.3, 0.3, 5, 30, -0.3), Score(0.6, 0.3, 5, 40, -0.6)], {30, 40})
    Score(value=0.5, standard_error=0.22360679774997896, clients=5, round=40, rank_value=-0.5)
    """
    latest = scores[-1]
    if latest.standard_error == 0 or not math.isfinite(latest.rank_value):
        return latest
    used = [s for s in scores if s.round in rounds and math.isfinite(s.rank_value)]
    times = Counter(score.round for score in used)  # those of one round share its weight
    half_life = HALF_LIFE * max(latest.round, 1)
    weights = [0.5 ** ((latest.round - s.round) / half_life) / times[s.round] for s in used]
    total = math.fsum(weights)

    def mean(values: Iterable[float]) -> float:
        return math.fsum(w * value for w, value in zip(weights, values, strict=True)) / total

    error = math.hypot(*(w * s.standard_error for w, s in zip(weights, used, strict=True))) / total
    value, rank_value = mean(s.value for s in used), mean(s.rank_value for s in used)
    others = tuple(_recent([s.others[i] for s in used], rounds) for i in range(len(latest.others)))
    return replace(latest, value=value, standard_error=error, rank_value=rank_value, others=others)


def _at(scores: Scores, clients: Ints) -> Scores:
    """The scores at some of the clients only."""
    places = np.flatnonzero(np.isin(scores.clients, clients))
    reasons = {new: scores.reasons[old] for new, old in enumerate(places.tolist()) if old in scores.reasons}
    columns = ("clients", "status", "size", "loss", "accuracy")
    metrics = {name: values[places] for name, values in scores.metrics.items()}
    found = {name: getattr(scores, name)[places] for name in columns}
    return replace(scores, reasons=reasons, metrics=metrics, **found)

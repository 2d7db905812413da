"""Robust halving: successive halving made for scores of few clients.

A score of one client says little, but it costs that client one message, where a round of training costs one
for each client of the cohort. So what a tenth of the training costs is spent on scores, a third of them in
each stage:

1. Draw n configs in six batches, as BOHB draws them; train each batch for a ninth of the rounds and score it
   before the next is drawn. n is the largest number that the total pays for.
2. Score all of them again and again, each time all at the same clients, and train the better third until a
   third of the rounds. Score these again and again, and train the better third of them to the end. Trials
   are compared by the means of the scores that they have in common.
3. Race the finalists: score all of them again, drop the worse half; go on with the others, until one is left
   or the leader is clearly ahead (Karnin et al., 2013). What the race leaves is a bound on the leader being
   wrong, see `fedhpo.search.decided`; with `[budget] stop = "decided"` it ends the race, too.

Where scores are exact, because all clients are asked, one a rung is enough, and there is no race; the better
quarter goes on in place of the better third, so that there are more trials. Where scores are private, every
further one makes all of them noisier: there are as many as are worth it. With one rung in place of three all
trials train to the end: fewer configs, and the fewest scores.

Where privacy releases choices and no scores, a choice costs by how many trials are chosen, not by how many
are looked at, and only at the clients that it asks. So each batch of the first rung is a group of its own:
its better third is chosen at clients of its own, before the next batch is drawn. The second rung is chosen in
two groups, and one trial out of the finalists. The scores that a tenth of the training pays for are pooled
into these choices; see `fedhpo.methods.pools`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.methods.pools import pools
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.samplers import BOHB
from fedhpo.schedules.halving import cost_of
from fedhpo.schedules.hyperband import first_rung
from fedhpo.search.decided import BOUNDED, MARGIN, bound_of
from fedhpo.search.paired import comparable_scores

if TYPE_CHECKING:
    from fedhpo.privacy.privacy import Privacy
    from fedhpo.protocol.objective import Score
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: One in so many trials goes on; and where scores are exact, so that fewer need a second chance.
_RATE, _EXACT_RATE = 3, 4
#: Rungs end at a training divided by powers of this.
_STEP = 3
#: The first of so many rungs ends at a ninth of a training.
MOST_RUNGS = 3
#: Configs are drawn in so many batches: each knows the scores of those before.
_BATCHES = 6
#: Private choices: a rung between the first and the last is chosen in so many groups.
_GROUPS = 2
#: Scores may cost so much of what training costs, in messages of clients.
_SHARE = 0.1
#: How much clients' scores of one config differ, for want of a measurement.
_SPREAD = 0.2
#: The race is decided when the leader is so many standard errors ahead of all others, after so many scores.
_CLEAR, _LEAST = 3.0, 8


@dataclass(frozen=True)
class Plan:
    """Trials of each rung, the round at which it ends, how often it is scored there; scores for the race."""

    sizes: tuple[int, ...]
    ends: tuple[int, ...]
    looks: tuple[int, ...]
    race: int
    #: Whether every rung begins its trials anew.
    anew: bool = field(default=False, repr=False)

    @property
    def rounds(self) -> int:
        """What the rungs spend together."""
        return cost_of(list(self.ends), list(self.sizes), self.anew)

    @property
    def groups(self) -> tuple[int, ...]:
        """In how many groups trials are chosen at the end of each rung, where choices are private.

        >>> plan(81, 1296).groups, plan(81, 1296, rungs=2).groups, plan(81, 1296, rungs=1).groups
        ((6, 2, 1), (6, 1), (1,))
        """
        before = [_BATCHES, *[_GROUPS] * MOST_RUNGS][: len(self.sizes) - 1]
        return (*(min(groups, size) for groups, size in zip(before, self.sizes[1:], strict=False)), 1)


def plan(
    rounds: int,
    total: int,
    most: int | None = None,
    scores: int = 0,
    race: bool = True,
    rungs: int = MOST_RUNGS,
    rate: int = _RATE,
    anew: bool = False,
) -> Plan:
    """The rungs for a total, with at most `most` trials, and at most `scores` scores, or one a rung.

    One in `rate` trials goes on; `anew`, it is trained anew.

    >>> plan(81, 1296, scores=1296)
    Plan(sizes=(60, 20, 7), ends=(9, 27, 81), looks=(7, 21, 1), race=449)
    >>> plan(81, 1296)
    Plan(sizes=(60, 20, 7), ends=(9, 27, 81), looks=(1, 1, 1), race=0)
    >>> plan(81, 1296, scores=44, rungs=1)
    Plan(sizes=(16,), ends=(81,), looks=(1,), race=28)
    >>> plan(81, 1296, rate=4).sizes
    (76, 19, 5)
    """
    if total < rounds:
        raise InputError(f"a total of {total} rounds does not pay for one training of {rounds}")
    ends = sorted({max(1, round(rounds / _STEP**rung)) for rung in range(rungs)})
    trials = next(
        n
        for n in range(min(total, most or total), 0, -1)
        if cost_of(ends, _sizes(n, len(ends), rate), anew) <= total
    )
    sizes = _sizes(trials, len(ends), rate)
    looks = [max(1, scores // (len(ends) * size)) for size in sizes[:-1]] + [1]
    left = scores - sum(size * times for size, times in zip(sizes, looks, strict=True))
    return Plan(tuple(sizes), tuple(ends), tuple(looks), max(0, left) if race else 0, anew)


def _sizes(trials: int, rungs: int, rate: int) -> list[int]:
    return [-(-trials // rate**rung) for rung in range(rungs)]


@dataclass(frozen=True)
class RobustHalving:
    """The schedule; see the module's docstring.

    `scores` limits how many scores are taken, by default to what a tenth of the training costs in messages.
    `again = False` scores each rung once, `race = False` leaves out the race: to see what they are worth.
    With `rungs = 1` all trials train to the end, with 2 the first rung ends at a third of a training.
    """

    scores: int | None = None
    again: bool = True
    race: bool = True
    rungs: int = MOST_RUNGS

    #: Trials are ordered here, by means of the scores of one objective.
    several_objectives: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self)
        if self.scores is not None and self.scores < 1:
            raise InputError(f"scores must be at least 1, not {self.scores}")
        if not 1 <= self.rungs <= MOST_RUNGS:
            raise InputError(f"rungs must be 1 to {MOST_RUNGS}, not {self.rungs}")

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Rung by rung: train, score again and again, keep the better third; then race the finalists."""
        planned = self._plan(search, sampler, self._allowed(search))
        privacy = search.evaluator.privacy
        by_choice = privacy is not None and not privacy.releases_values
        if by_choice:
            planned = replace(planned, looks=self._pooled(search, planned), race=0)
        search.facts["robust"] = {key: one for key, one in asdict(planned).items() if one is not False}
        if by_choice:
            rung = by_choices(search, planned, sampler, policy)
            winner = next(iter(search.choose(rung, 1, planned.looks[-1])), None)
        else:
            rung = self._by_scores(search, planned, sampler, policy)
            winner = race(search, rung, planned.race)
        search.finish(rung, lambda rivals: winner)
        return search.best()

    def _by_scores(
        self, search: Search, planned: Plan, sampler: Sampler, policy: ClientPolicy
    ) -> list[Trial]:
        """The finalists by means of their scores."""
        trials, end = planned.sizes[0], planned.ends[0]
        rung = first_rung(search, trials, end, math.ceil(trials / _BATCHES), sampler, policy)
        together = _scored(search, rung, planned.looks[0] - 1)
        for size, end, looks in zip(planned.sizes[1:], planned.ends[1:], planned.looks[1:], strict=True):
            kept = best_first(search, rung, together, size)
            search.eliminate([trial for trial in rung if trial not in kept])
            rung = kept
            search.train(rung, end)
            together = _scored(search, rung, looks)
        return rung

    def _pooled(self, search: Search, planned: Plan) -> tuple[int, ...]:
        """The looks that the private choices of each rung pool."""
        privacy, clients = search.evaluator.privacy, len(search.population)
        assert privacy is not None
        if not (privacy.gapped and self.again):
            return (1,) * len(planned.sizes)
        asked = search.evaluator.count(clients)
        scores = self.scores if self.scores is not None else paid_scores(search.total, search.cohort, asked)
        return pools(
            planned.sizes,
            planned.groups,
            asked=asked,
            clients=clients,
            scores=scores,
            epsilon=privacy.epsilon,
            rotates=privacy.rotates,
            gap=privacy.gap,
        ).looks

    def _plan(self, search: Search, sampler: Sampler, scores: int = 0) -> Plan:
        most = search.distinct(search.total, sampler)
        exact = search.evaluator.clients is None and search.evaluator.privacy is None
        rate = _EXACT_RATE if exact else _RATE
        race, anew = self.race, search.anew
        found = plan(search.rounds, search.total, most, scores, race, self.rungs, rate, anew)
        return (
            found if self.again else Plan(found.sizes, found.ends, (1,) * len(found.ends), found.race, anew)
        )

    def _allowed(self, search: Search) -> int:
        return worth_taking(search) if self.scores is None else self.scores

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """What the rungs spend together; refuses settings that have no effect there."""
        if search.rounds == 1 and self.rungs not in (1, MOST_RUNGS):
            refuse([f"rungs = {self.rungs}: has no effect with trainings of one round: leave it out"])
        return self._plan(search, sampler).rounds

    def cuts(self, search: Search, sampler: Sampler) -> bool:
        """Whether trials are cut short."""
        return len(self._plan(search, sampler).ends) > 1

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised: trials that a longer rung would have kept are gone."""
        return "under halving the number of trials follows the total, from the first round on"

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "robust", **asdict(self)}


def by_choices(search: Search, planned: Plan, sampler: Sampler, policy: ClientPolicy) -> list[Trial]:
    """The finalists by private choices, group by group; those of the first rung are its batches."""
    rung: list[Trial] = []
    groups, goals = planned.groups, (*planned.sizes[1:], None)
    for number in range(groups[0]):
        trials = _share(planned.sizes[0], groups[0], number)
        drawn = first_rung(search, trials, planned.ends[0], None, sampler, policy)
        rung += _kept(search, drawn, goals[0], groups[0], number, planned.looks[0])
    rungs = zip(planned.ends[1:], goals[1:], groups[1:], planned.looks[1:], strict=True)
    for end, goal, count, looks in rungs:
        search.train(rung, end)
        search.evaluate(rung)
        parts = [rung[number::count] for number in range(count)]
        rung = [t for n, part in enumerate(parts) for t in _kept(search, part, goal, count, n, looks)]
    return rung


def _kept(
    search: Search, group: list[Trial], goal: int | None, groups: int, number: int, looks: int
) -> list[Trial]:
    """A group's part of the trials that go on; all of it in the last rung, which has no goal."""
    if goal is None:
        return group
    kept = search.choose(group, _share(goal, groups, number), looks)
    search.eliminate([trial for trial in group if trial not in kept])
    return kept


def _share(total: int, parts: int, number: int) -> int:
    """One of so many parts of a total, as equal as they can be.

    >>> [_share(20, 6, number) for number in range(6)]
    [3, 3, 4, 3, 3, 4]
    """
    return total * (number + 1) // parts - total * number // parts


def worth_taking(search: Search) -> int:
    """How many scores a search should take: 0 where more than one a rung would be of no use."""
    evaluator, clients = search.evaluator, len(search.population)
    asked, privacy = evaluator.count(clients), evaluator.privacy
    paid = paid_scores(search.total, search.cohort, asked)
    if privacy is not None:
        return min(paid, private_scores(privacy, clients, asked))
    return 0 if asked == clients else paid


def paid_scores(total: int, cohort: int, asked: int) -> int:
    """How many scores of so many clients a tenth of the training costs.

    >>> paid_scores(1296, 10, 1)
    1296
    """
    return int(_SHARE * total * cohort / asked)


def private_scores(privacy: Privacy, clients: int, asked: int) -> int:
    """How many private scores make their means most precise; 0 where one a rung is too many already.

    Where clients take turns, M scores of `asked` clients each have noise of scale M / (epsilon N), besides
    the spread of the clients themselves. The variance of a mean is, up to a factor,
    s^2 / (asked M) + 2 M / (epsilon N)^2. It is least at M = s epsilon N / sqrt(2 asked).

    >>> from fedhpo.privacy.privacy import Privacy
    >>> private_scores(Privacy(100.0), 100, 1), private_scores(Privacy(10.0), 100, 10)
    (1414, 44)
    """
    if not (privacy.releases_values and privacy.rotates):
        return 0
    return int(_SPREAD * privacy.epsilon * clients / math.sqrt(2 * asked))


def _scored(search: Search, rung: Sequence[Trial], times: int) -> int:
    """Score the trials so often, all at the same clients each time; so many of their scores are in common."""
    for _ in range(times):
        search.evaluate(rung)
    return times


def race(search: Search, finalists: Sequence[Trial], scores: int) -> Trial | None:
    """Score finalists again, and the better half of them again, until one is left (Karnin et al., 2013).

    Each halving has the same part of the scores. The race ends early when the leader is clearly ahead. The
    winner comes back; None where all failed. Those that failed count in the sizes of the halvings, so that
    a race takes no more scores than one in which nobody fails, as private scores are planned.
    """
    rung = [trial for trial in finalists if not trial.failed]
    together = 1  # they were scored when they reached the end
    looks = Looks(search, rung)
    if not scores:
        rung = best_first(search, rung, together, 1)
    size = len(finalists)
    halvings = max(1, math.ceil(math.log2(max(2, size))))
    while len(rung) > 1:
        for _ in range(scores // (halvings * size)):
            together += _scored(search, rung, 1)
            looks.take(rung)
            if looks.over(rung, together):
                looks.tell(stopped=True)
                return best_first(search, rung, together, 1)[0]
        size = math.ceil(size / 2)
        rung = best_first(search, rung, together, size)
    looks.tell(stopped=False)
    return rung[0] if rung else None


class Looks:
    """What finalists scored, look by look; whether that decides the race, and what is said of it."""

    def __init__(self, search: Search, rung: Sequence[Trial]) -> None:
        self._search = search
        able = search.objective.metric in BOUNDED and search.evaluator.privacy is None
        first = [trial for trial in rung if trial.scores and math.isfinite(trial.rank_value)]
        self._seen = {trial: [trial.rank_value] for trial in first} if able else {}
        self._rivals = len(rung) - 1

    def take(self, rung: Sequence[Trial]) -> None:
        """One more score of each of these."""
        for trial in rung:
            if trial in self._seen:
                if math.isfinite(trial.rank_value):
                    self._seen[trial].append(trial.rank_value)
                else:
                    del self._seen[trial]

    def over(self, rung: Sequence[Trial], together: int) -> bool:
        """Whether the race need not go on: by the bound where a study says so, else by standard errors."""
        search = self._search
        if search.margin is None:
            return decided(comparable_scores(rung, search.objective, search.evaluator), together)
        seen = [self._seen[trial] for trial in rung if trial in self._seen]
        return len(seen) > 1 and bound_of(seen, search.margin, self._rivals).decided

    def tell(self, *, stopped: bool) -> None:
        """Leave the bound, over all finalists, for result.json."""
        looks = max(map(len, self._seen.values()), default=0)
        if len(self._seen) < 2 or looks < 2:
            return
        margin = MARGIN if self._search.margin is None else self._search.margin
        racing = [scores for scores in self._seen.values() if len(scores) == looks]
        found = bound_of(racing, margin, self._rivals)
        of_all = bound_of(list(self._seen.values()), margin, self._rivals).value
        self._search.facts["race"] = found.to_dict(of_all, stopped=stopped)


def decided(rung: Sequence[Sequence[Score]], together: int) -> bool:
    """Whether the leader is clearly ahead of every other, by the last scores, at the same clients.

    Each trial comes with its scores, oldest first.
    """
    if together < _LEAST or min(len(scores) for scores in rung) < together:
        return False
    seen = np.array([[score.rank_value for score in scores[-together:]] for scores in rung])
    if not np.isfinite(seen).all():
        return False
    leader = int(seen.mean(axis=1).argmin())
    ahead = np.delete(seen, leader, axis=0) - seen[leader]
    errors = ahead.std(axis=1, ddof=1) / math.sqrt(together)
    return bool((ahead.mean(axis=1) > _CLEAR * errors).all())


def best_first(search: Search, rung: Sequence[Trial], together: int, count: int) -> list[Trial]:
    """The best `count` trials by the scores in common."""
    able = [trial for trial in rung if not trial.failed and trial.scores]
    scores = comparable_scores(able, search.objective, search.evaluator)
    worths = {trial: worth(own, together) for trial, own in zip(able, scores, strict=True)}
    return sorted(rung, key=lambda trial: (worths.get(trial, math.inf), trial.number))[:count]


def worth(scores: Sequence[Score], together: int) -> float:
    """The mean of a trial's last scores, those that others have too; the latest one where there are none."""
    return float(np.mean([score.rank_value for score in scores[-max(1, together) :]]))


@dataclass(frozen=True)
class Robust(Preset):
    """Halving made for scores of few clients: rungs are scored again and again, and finalists race.

    At most `scores` scores are taken, by default what a tenth of the training costs in messages of clients.
    `again = False` scores each rung once, `race = False` leaves out the race. With `rungs = 1` all trials
    train to the end, which needs the fewest scores.
    """

    scores: int | None = None
    again: bool = True
    race: bool = True
    rungs: int = MOST_RUNGS

    name: ClassVar[str] = "robust"
    number: ClassVar[int] = 3

    def tuner(self) -> Tuner:
        """BOHB's model of the scores, under the schedule."""
        return Tuner(RobustHalving(self.scores, self.again, self.race, self.rungs), BOHB())

"""The default method, chosen by rule from the budget, the clients and the privacy of a study.

1. There are several objectives, or constraints: successive halving, which sorts trials by all of them.
2. Trainings of fewer than nine rounds cannot be cut into rungs: a Gaussian process over full trainings.
3. Under privacy, halving by private scores would have more noise than configs differ: robust halving with one
   rung, whose trials all train to the end and then race. Where a client would be in more than one of its
   scores, random search.
4. Otherwise robust halving: it is ahead with few clients, and near the best where scores are exact. Under
   privacy it goes by scores or by choices, whichever has less noise. By choices it has three rungs where
   their noise is at most half of what configs differ by, two where it is no more than that, else one.

Where a study names no private mechanism, the rule names it. What it took, and why, is said in two sentences
(a third one under privacy), in result.json (`auto`) and in the report. `fedhpo advise` goes by the same rule,
and can measure in a pilot how much configs differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedhpo.methods.pools import pools
from fedhpo.methods.presets import GP, SHA, RandomSearch
from fedhpo.methods.robust import MOST_RUNGS, Robust, paid_scores, plan
from fedhpo.privacy.privacy import DEFAULT
from fedhpo.privacy.rotation import most_asked
from fedhpo.protocol.method import Method
from fedhpo.protocol.sections import section

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: The first rung of robust halving is a ninth of a training: below one round there is none.
RUNGS = 9
#: How much the errors of random configs differ (one standard deviation), where no pilot says it.
SPREAD = 0.1
#: Of what configs differ by, so much noise halving by choices of gaps bears with two rungs and with three.
_TWO, _THREE = 1.0, 0.5
#: Choices by whole scores bear so many times the noise that scores do.
_BEAR = 2.0


@dataclass(frozen=True)
class Case:
    """What the rule goes by. `asked` of `clients` validation clients make a score; `spread` is of configs.

    `rotates` says whether a client is charged only for the private scores that it takes part in, `values`
    whether private scores come out (True) or only which trials are best (False), None where that may be
    chosen; `several` whether there are further objectives, or constraints. `cohort` clients train in a round;
    `gap` is that of `Privacy`.
    """

    rounds: int
    total: int
    clients: int
    asked: int
    epsilon: float | None = None
    rotates: bool = False
    spread: float = SPREAD
    several: bool = False
    values: bool | None = None
    cohort: int = 10
    gap: float | None = None

    @classmethod
    def of(cls, search: Search, spread: float = SPREAD) -> Case:
        """That of a search that has begun."""
        clients = len(search.population)
        privacy = search.evaluator.privacy
        return cls(
            search.rounds,
            search.total,
            clients,
            search.evaluator.count(clients),
            None if privacy is None else privacy.epsilon,
            privacy is not None and privacy.rotates,
            spread,
            bool(search.criteria),
            None if privacy is None else privacy.releases_values,
            search.cohort,
            None if privacy is None else privacy.gap,
        )

    @property
    def takes_turns(self) -> bool:
        """Whether no client is in more than one of the private scores, if each full training has one."""
        turns = most_asked(max(1, self.total // self.rounds), self.asked, self.clients)
        return self.rotates and self.values is not False and turns <= 1

    @property
    def too_noisy(self) -> bool:
        """Whether halving would have more private noise than it bears, whatever the mechanism."""
        return not (self._bears_scores or self._bears_choices)

    @property
    def _bears_scores(self) -> bool:
        return self.values is not False and self.score_noise <= self.spread

    @property
    def _bears_choices(self) -> bool:
        most = _BEAR if self.gap == 1 else _TWO
        return self.values is not True and self.choice_noise <= most * self.spread

    @property
    def rungs(self) -> int:
        """How many rungs halving by private choices has."""
        if self.gap == 1:
            return MOST_RUNGS
        three, two = (self._pooled_noise(rungs) for rungs in (3, 2))
        return 3 if three <= _THREE * self.spread else 2 if two <= _TWO * self.spread else 1

    @property
    def mechanism(self) -> Literal["laplace", "permute-and-flip"]:
        """The private mechanism by which halving has the least noise, of those whose noise it bears."""
        by_scores = self.values
        if by_scores is None:
            by_scores = self.score_noise <= self.choice_noise
            if self._bears_scores != self._bears_choices:
                by_scores = self._bears_scores
        return "laplace" if by_scores else "permute-and-flip"

    @property
    def private_noise(self) -> float:
        """Standard deviation of the private noise of halving, with that mechanism."""
        return self.score_noise if self.mechanism == "laplace" else self.choice_noise

    @property
    def score_noise(self) -> float:
        """That of a private score, if each rung of halving is scored once."""
        planned = plan(self.rounds, self.total)
        return math.sqrt(2) * self._unit(sum(planned.sizes))

    @property
    def choice_noise(self) -> float:
        """That of a private choice from a group of the first rung."""
        if self.gap == 1:  # whole scores, one evaluation a choice
            planned = plan(self.rounds, self.total)
            taken = planned.sizes[1] / planned.groups[0] if len(planned.sizes) > 1 else 1
            return 2 * taken * self._unit(sum(planned.groups))
        return self._pooled_noise(self.rungs)

    def _pooled_noise(self, rungs: int) -> float:
        """That of a choice of gaps, which pools several looks at clients."""
        if self.epsilon is None:
            return 0.0
        planned = plan(self.rounds, self.total, rungs=rungs)
        found = pools(
            planned.sizes,
            planned.groups,
            asked=self.asked,
            clients=self.clients,
            scores=paid_scores(self.total, self.cohort, self.asked),
            epsilon=self.epsilon,
            rotates=self.rotates,
            gap=self.gap,
        )
        return found.noise[0]

    def _unit(self, releases: int) -> float:
        """The scale of Laplace noise on a mean over the clients asked, if there are so many releases."""
        if self.epsilon is None:
            return 0.0
        weight = most_asked(releases, self.asked, self.clients) if self.rotates else releases
        return weight / (self.epsilon * self.asked)


@dataclass(frozen=True)
class Choice:
    """A method, the private mechanism that suits it, and two sentences: what, and why."""

    method: Method
    mechanism: str | None
    why: str


def choose(case: Case) -> Choice:
    """The rule.

    >>> choose(Case(rounds=81, total=1296, clients=100, asked=1)).method
    Robust(scores=None, again=True, race=True, rungs=3)
    >>> choose(Case(rounds=81, total=1296, clients=100, asked=1, epsilon=1.0, rotates=True)).method
    Robust(scores=None, again=True, race=True, rungs=2)
    >>> choose(Case(rounds=81, total=1296, clients=100, asked=100, epsilon=1.0, rotates=True)).mechanism
    'permute-and-flip'
    """
    private = case.epsilon is not None
    if case.several:
        return Choice(
            SHA(),
            None,
            "Successive halving, which keeps the trials that no other one beats in everything. There are "
            "several objectives, or constraints, and a race of robust halving knows only one score.",
        )
    if case.rounds < RUNGS:
        return Choice(
            GP(),
            "laplace" if private else None,
            "Trials train to the end, one after the other, where a Gaussian process expects most. Trainings "
            f"of {case.rounds} rounds are too short to be stopped early.",
        )
    if case.too_noisy and (case.gap == 1 or case.values):
        why = (
            f"Halving would need so many private releases that each has noise of {case.private_noise:.2g}, "
            f"and configs differ by {case.spread:.2g}."
        )
        if case.takes_turns:
            what = "Robust halving with one rung: all trials train to the end, then they race. "
            return Choice(Robust(rungs=1), "laplace", what + why)
        trials = max(1, case.total // case.rounds)
        scores = f"one private score of each comes out, {trials} in all"
        looks = scores if case.values else "one private choice looks at them"
        what = f"Random search: all trials train to the end, and {looks}. "
        return Choice(RandomSearch(), "permute-and-flip", what + why)
    if private and case.mechanism == "permute-and-flip":
        return Choice(Robust(rungs=case.rungs), case.mechanism, _by_choices(case))
    if case.asked < case.clients:
        why = (
            f"A score comes from {case.asked} of {case.clients} clients, so rungs are scored more than once."
        )
    else:
        why = "Scores are exact, so rungs are scored once, and many configs can be tried for a short time."
    what = "Robust halving: many short trials, of which the better go on, then a race of finalists. "
    return Choice(Robust(), "laplace" if private else None, what + why)


def _by_choices(case: Case) -> str:
    """What halving by private choices is here, and why."""
    if case.rungs == 1:
        what = "Robust halving with one rung: all trials train to the end, and one choice looks at them. "
    else:
        short = "" if case.rungs == MOST_RUNGS else " in two rungs"
        what = (
            f"Robust halving by private choices{short}: many short trials, and of each group the better "
            "third go on. "
        )
    return what + (
        f"Such a choice has noise of {case.choice_noise:.2g}, and a private score would have "
        f"{case.score_noise:.2g}."
    )


def noises(case: Case, mechanism: str) -> str:
    """Which mechanism a private search has, and what noise it and the other one have in halving.

    >>> case = Case(rounds=81, total=1296, clients=100, asked=10, epsilon=10.0, rotates=True)
    >>> noises(case, "permute-and-flip")
    'The mechanism is permute-and-flip: a score has noise of 0.13, a choice of 0.037.'
    """
    suits = choose(replace(case, values=None)).mechanism or DEFAULT
    named = "" if mechanism == suits else f", as named ({suits} suits)"
    scored, chosen = f"{case.score_noise:.2g}", f"{case.choice_noise:.2g}"
    return f"The mechanism is {mechanism}{named}: a score has noise of {scored}, a choice of {chosen}."


@dataclass(frozen=True)
class Auto(Method):
    """The default: a method chosen by rule from budget, clients and privacy, which says what and why.

    The same rule names the private mechanism where the study names none. It takes `robust`, with one rung
    where privacy leaves only few looks at scores; `sha` for several objectives, or constraints; `gp` where
    trainings are too short to be cut; `random` where privacy leaves only one look.
    """

    name: ClassVar[str] = "auto"

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; refuses a total below one training.

        It is asked before clients are known: where trials will all train to the end, this is what robust
        halving spends.
        """
        if search.criteria:
            return SHA().rounds(search)
        return (GP() if search.rounds < RUNGS else Robust()).rounds(search)

    def run(self, search: Search) -> Trial:
        """Choose, say so, and tune."""
        case = Case.of(search)
        choice = choose(case)
        privacy = search.evaluator.privacy
        told = {} if privacy is None else {"mechanism": str(privacy.mechanism)}
        how = "" if privacy is None else f" {noises(case, str(privacy.mechanism))}"
        search.facts["auto"] = {"method": choice.method.name, "why": choice.why + how, **told}
        return choice.method.run(search)

    def cuts(self, search: Search) -> bool:
        """Whether trials are cut short by scores; with privacy that is not known before clients are."""
        if search.evaluator.privacy is not None:
            return False
        return SHA().cuts(search) if search.criteria else search.rounds >= RUNGS and Robust().cuts(search)

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised."""
        return "what auto takes, and how many trials, follow the total from the first round on"

    def sections(self, search: Search) -> list[Any]:
        """What was chosen and why, and what the chosen method adds."""
        chosen = choose(Case.of(search)).method
        return [section("Method", search.facts["auto"]["why"]), *chosen.sections(search)]

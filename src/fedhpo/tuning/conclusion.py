"""How a run ends: the best trial compared with the user's own config, and both scored on test data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from fedhpo.core.significance import p_value
from fedhpo.protocol.federation import Cost, Scores
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.policy import LearningState
from fedhpo.protocol.session import Charged
from fedhpo.search.comparison import Gain, effective, fresh_gain, released_gain, rivals_of
from fedhpo.search.paired import gain_at_clients
from fedhpo.search.personal import personalised
from fedhpo.search.private import PrivateChannel
from fedhpo.search.search import Search
from fedhpo.search.trial import Evaluation, Trial, path_of
from fedhpo.search.verdict import Verdict, verdict_of
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Conclusion:
    """What is known when a run ends; of one that was stopped, only the best trial so far, if any.

    `tests` are test scores by trial, `personal` scores after fine-tuning, `baseline_rounds` what the user's
    own config was trained for to compare it.
    """

    best: Trial | None
    gain: Gain | None = None
    tests: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    personal: dict[str, Any] | None = None
    baseline_rounds: int = 0

    def verdict(self, search: Search) -> Verdict:
        """Whether tuning improved on the user's own config."""
        best = self.best
        broken = best.score.violation if best is not None and best.score else 0.0
        named = None if best is None else {"trial": best.number, "rounds": best.round, "violation": broken}
        first = [
            {"path": path_of(trial), "violation": trial.score.violation if trial.score else 0.0}
            for trial in search.trials[:1]
        ]
        return verdict_of({"best": named, "gain": named_gain(search, self.gain), "trials": first})

    def used(self, search: Search) -> Trial | None:
        """The trial whose config and model are to be used: the user's own where tuning brought nothing."""
        if self.best is None:
            return None
        return search.own or self.best if self.verdict(search).use == "own" else self.best


def conclude(search: Search, best: Trial, baseline: bool) -> Conclusion:
    """Compare the best trial with trial 0 at equal rounds, and score both on test data."""
    own = search.begin_own_again() if baseline else search.own
    if own is None:
        return _with_personal(search, Conclusion(best, tests=_tested(search, [best.number])))
    alive, baseline_rounds = set(search.session.trials), 0
    if baseline and {own.number, best.number} <= alive and own is not best and own.round < best.round:
        before = search.ledger.cost.rounds
        trained = search.train_own(best.round)
        baseline_rounds = search.ledger.cost.rounds - before
        if trained and search.comparison is None:
            search.evaluate([best, own])
    gain = _gain(search, best, own)
    shown = [best] if own is best or own.round != best.round else [best, own]
    numbers = [trial.number for trial in shown if trial.number in search.session.trials]
    found = Conclusion(best, gain, _tested(search, numbers), baseline_rounds=baseline_rounds)
    return _with_personal(search, found)


def _with_personal(search: Search, found: Conclusion) -> Conclusion:
    used = found.used(search)
    assert used is not None
    return replace(found, personal=_personal(search, used))


def deployed(trial: Trial) -> Config:
    """The trial's config with the client hyperparameters to deploy."""
    state = trial.policy
    return state.deployed(trial.config) if isinstance(state, LearningState) else trial.config


def _tested(search: Search, trials: list[int]) -> dict[int, dict[str, Any]]:
    """Test scores of each trial; of a private run only if the user wants them, and then recorded as means."""
    session, privacy = search.session, search.evaluator.privacy
    wanted = privacy is None or privacy.report_test
    if not trials or not len(session.test_clients) or not wanted:
        return {}
    if privacy is None:
        scores = session.evaluate(trials, session.test_clients, "test")
        return {score.trial: _means(score, search.objective) for score in scores}

    def test() -> Charged:
        scores = session.evaluate_beside(trials, session.test_clients, "test")
        means = [_means(score, search.objective) | {"outside_privacy": True} for score in scores]
        return Charged(means, sum((score.cost for score in scores), Cost()))

    return dict(zip(trials, session.decide("test", {"trials": trials}, test), strict=True))


def _means(scores: Scores, objective: Objective) -> dict[str, Any]:
    """The objective on test data (`value`), and the means of all metrics with its weights."""
    weighting: Literal["size", "uniform"] = "size" if objective.weighting == "size" else "uniform"
    return {
        "value": objective.observe(scores, 0, len(scores.clients)).value,
        "accuracy": scores.mean("accuracy", weighting),
        "loss": scores.mean("loss", weighting),
        **{name: scores.mean(name, weighting) for name in scores.metrics},
        "clients": int((scores.size > 0).sum()),
    }


def _gain(search: Search, best: Trial, own: Trial) -> Gain | None:
    """How much better the best trial is than the user's own: at fresh clients where there are any.

    Otherwise at the last round where both were scored, client by client where the same ones scored both, else
    from the two scores, whose errors add up.
    """
    if own is best:
        return Gain(0.0, 0.0, best.scores[-1].clients, best.round)
    if search.evaluator.privacy is not None:
        return _private_gain(search, best, own)
    return fresh_gain(search, best, own) or _gain_of_the_search(search, best, own)


def _gain_of_the_search(search: Search, best: Trial, own: Trial) -> Gain | None:
    """The gain at the clients that chose the best trial, to be corrected for the number of its rivals."""
    for ours in reversed(best.evaluations):
        rivals = [other for other in reversed(own.evaluations) if other.round == ours.round]
        # Those of the same evaluation first: they saw the same.
        for other in sorted(rivals, key=lambda other: other.number != ours.number):
            if set(other.scores.clients.tolist()) == set(ours.scores.clients.tolist()):
                value, error, clients = gain_at_clients(
                    search.objective, search.evaluator, ours.scores, other.scores
                )
                p = p_value(value, error, min(clients, effective(search.objective, ours.scores)))
                return Gain(value, error, clients, ours.round, p, rivals=rivals_of(search))
        if rivals:
            return _apart(search, ours, rivals[0])
    return None


def _apart(search: Search, ours: Evaluation, other: Evaluation) -> Gain:
    """The gain where other clients scored the one than the other."""
    population = len(search.population)
    mine, theirs = (search.objective.observe(e.scores, e.round, population) for e in (ours, other))
    error = math.hypot(mine.standard_error, theirs.standard_error)
    gain = mine.value - theirs.value if search.objective.maximise else theirs.value - mine.value
    least = min(effective(search.objective, one.scores) for one in (ours, other))
    p, clients = p_value(gain, error, least), min(mine.clients, theirs.clients)
    return Gain(gain, error, clients, ours.round, p, rivals=rivals_of(search))


def _private_gain(search: Search, best: Trial, own: Trial) -> Gain | None:
    """What the comparison releases; without one, from released scores, which chose the winner: no test."""
    plan, channel, alive = search.comparison, search.channel, set(search.session.trials)
    if plan is not None:
        possible = {best.number, own.number} <= alive and own.round == best.round
        return released_gain(search, cast(PrivateChannel, channel), best, own) if possible else None
    theirs = {score.round: score for score in own.scores if math.isfinite(score.value)}
    for ours in reversed(best.scores):
        other = theirs.get(ours.round)
        if other is not None and math.isfinite(ours.value):
            error = math.hypot(ours.standard_error, other.standard_error)
            gain, clients = other.rank_value - ours.rank_value, min(ours.clients, other.clients)
            return Gain(gain, error, clients, ours.round, rivals=rivals_of(search))
    return None


def _personal(search: Search, best: Trial) -> dict[str, Any] | None:
    """Personalised scores of the best trial, where they are wanted."""
    if not search.evaluator.personalised or best.number not in search.session.trials:
        return None
    return personalised(search.session, best.number, deployed(best).client)


def named_gain(search: Search, gain: Gain | None) -> dict[str, Any] | None:
    """A gain by names, JSON-able; noise may not make it larger than a gain can be."""
    return None if gain is None else gain.to_dict(bounded=search.evaluator.privacy is not None)

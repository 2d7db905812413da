"""What a search begins with: its arguments checked, its budget and privacy planned.

`fedhpo.tune` and the replay of a method on a table begin here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.methods import FTS, Auto, FLoRA, Tuner, method_of
from fedhpo.methods.auto import Case, choose
from fedhpo.privacy.privacy import DEFAULT
from fedhpo.protocol.criteria import Criteria
from fedhpo.protocol.failures import Failures
from fedhpo.protocol.federation import QUERY, Federation
from fedhpo.protocol.ledger import Budget
from fedhpo.protocol.method import ONE_TRAINING, Method
from fedhpo.protocol.metrics import Metric
from fedhpo.protocol.objective import Objective, metrics_of, natural_objective
from fedhpo.protocol.own_metric import opened, own_metric
from fedhpo.protocol.schedule import FULL
from fedhpo.protocol.session import Session
from fedhpo.run.extension import total_of
from fedhpo.search.comparison import evaluation_facts
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.events import Event
from fedhpo.search.keeping import Keep
from fedhpo.search.private_setup import PrivatePlan, check_scored, plan_private, private_objective
from fedhpo.search.search import Search, check_cohort, cohort_of
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.tuning.arguments import checked_evaluator, checked_seed
from fedhpo.tuning.effects import (
    check_horizon,
    check_keep,
    check_local_scoring,
    check_stop,
    margin_of,
    refuse_steps_beyond,
    refuse_without_effect,
)
from fedhpo.tuning.objectives import check_criteria, objectives_of
from fedhpo.tuning.trust import check_choice

#: Versions that counted whoever answered about a trial, whether about the others or not.
_COUNTED_EACH = ("0.1.0", "0.2.0")


@dataclass(frozen=True)
class Prepared:
    """A method and the search that it will work with; `total` and `enqueued` as they were asked for.

    `metrics` are those that clients compute beside what they score by anyway.
    """

    method: Method | Tuner
    search: Search
    plan: PrivatePlan | None
    total: int
    enqueued: Sequence[Config]
    baseline: bool
    metrics: Sequence[Metric] = ()

    @property
    def private(self) -> bool:
        """Whether scores are private."""
        return self.plan is not None

    @property
    def budget(self) -> Budget:
        """The rounds of the search and of the comparison at its end, and the epsilon."""
        privacy, plan = self.search.evaluator.privacy, self.search.comparison
        privacy = privacy if plan is None else plan.privacy
        rounds = self.total + (self.search.rounds if self.baseline else 0)
        return Budget(rounds=rounds, epsilon=None if privacy is None else privacy.epsilon)

    def begin(self, session: Session, totals: Sequence[int] = ()) -> None:
        """Give the search its session."""
        if self.plan is None:
            self.search.begin(session, totals=totals)
        else:
            channel, most = self.plan.channel, self.plan.most_trials
            self.search.begin(session, channel=channel, most_trials=most, totals=totals)

    def facts(self, federation: Federation) -> dict[str, Any]:
        """What was asked for, JSON-able: a run is resumed only with the same."""
        search = self.search
        return {
            "space": search.space.to_dict(),
            "method": self.method.to_dict(),
            "budget": {
                "rounds": search.rounds,
                "total": self.total,
                "cohort": search.cohort,
                "baseline": self.baseline,
                **({} if search.horizon == FULL else {"horizon": search.horizon}),
                **({} if search.keep == "last" else {"keep": search.keep}),
                **({} if search.margin is None else {"stop": "decided", "margin": search.margin}),
            },
            "seed": search.seed,
            "objective": search.objective.to_dict(),
            **search.criteria.to_dict(search.objective),
            "evaluation": evaluation_facts(search),
            **({"comparison": "fresh clients"} if search.compares_afresh else {}),
            "enqueue": [config.to_dict() for config in self.enqueued],
            "clients": [len(federation.train_clients), len(federation.validation_clients)],
            **({"metrics": [metric.name for metric in self.metrics]} if self.metrics else {}),
        }


def prepare(
    federation: Federation,
    space: Space,
    method: str | Method | Tuner | None,
    *,
    rounds: int,
    total: int | None,
    cohort: int | None,
    seed: int,
    objective: Objective | str | None = None,
    objectives: Sequence[Any] | None = None,
    constraints: Sequence[str] = (),
    evaluation: Evaluator | None = None,
    metrics: Sequence[Any] = (),
    enqueued: Sequence[Config] = (),
    baseline: bool = False,
    horizon: str = FULL,
    keep: Keep = "last",
    stop: str | None = None,
    margin: float | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    failures: Failures | None = None,
    begun: Mapping[str, Any] | None = None,
) -> Prepared:
    """Check all of it, and plan: what cannot be done is refused here, before anything is trained or written.

    The arguments are those of `fedhpo.tune`. `begun` is the study of a run that goes on, as its record holds
    it: one that was begun without a comparison at its end goes on without it.
    """
    chosen = method_of(method)
    if objective is None and objectives is None:
        objective = natural_objective(federation)
    objective, named = opened(objective)
    metrics = [*named, *(own_metric(one, "metrics") or one for one in metrics)]
    objective, criteria = objectives_of(objective, objectives, constraints)
    evaluator = _as_begun(checked_evaluator(evaluation), begun)
    refuse_without_effect(chosen, objective, evaluator, space, federation)
    if isinstance(chosen, FLoRA | FTS):
        check_local_scoring(objective, federation, chosen.name)
    check_criteria(criteria, chosen, evaluator)
    wanted = metrics_of(objective, [*metrics, *_further(criteria, metrics)], federation)
    federation.measure(wanted)
    check_scored(objective, federation, wanted)
    rounds = whole_number("rounds", rounds)
    federation.expect(rounds)
    refuse_steps_beyond(space, federation, rounds)
    if evaluator.every is not None and evaluator.every >= rounds:
        refuse([f"evaluation.every = {evaluator.every}: has no effect in trainings of {rounds} rounds"])
    total = _total(chosen, rounds, total, begun)
    training = len(federation.train_clients)
    cohort = whole_number("cohort", cohort_of(cohort, training))
    seed = checked_seed(seed)
    check_cohort(cohort, training)
    if not len(federation.validation_clients):
        raise InputError("no client holds validation data: there is nothing to select by")
    federation.require(chosen.needs, chosen.name)
    if isinstance(chosen, Method):
        chosen.check_federation(federation)
    if evaluator.personalised:
        federation.require({QUERY}, "evaluation.personalised")
        if not federation.fine_tunes:
            raise InputError(
                "evaluation.personalised: a model that is trained whole, or was recorded, cannot be "
                "fine-tuned at clients: leave it out"
            )
    if evaluator.privacy is not None:
        if federation.timed:
            raise InputError(
                "privacy cannot go with a fleet: epsilon is divided among clients beforehand, and who will "
                "be there is not known then"
            )
        objective = private_objective(objective, federation)
        clients = len(federation.validation_clients)
        case = Case(rounds, total, clients, evaluator.count(clients), several=bool(criteria), cohort=cohort)
        evaluator = _with_mechanism(evaluator, chosen, case)
    search = Search(
        space,
        rounds=rounds,
        total=total,
        cohort=cohort,
        seed=seed,
        objective=objective,
        evaluator=evaluator,
        enqueued=list(dict.fromkeys(enqueued)),
        pool=federation.about.pool,
        keep_baseline=baseline,
        on_event=on_event,
        failures=failures,
        criteria=criteria,
        horizon=horizon,
        keep=keep,
        margin=margin_of(stop, margin),
    )
    check_horizon(chosen, search, federation)
    check_keep(chosen, search, federation)
    check_stop(chosen, search, federation)
    planned = chosen.rounds(search)  # refuses a budget that is too small
    check_choice(search, federation, chosen.name, planned)
    private = evaluator.privacy is not None
    # Where clients are asked by queries, what they know is in the choice already.
    some = evaluator.clients is not None and not private and QUERY not in chosen.needs
    search.compares_afresh = some and (begun is None or "comparison" in begun)
    earlier = begun is not None and begun.get("version") in _COUNTED_EACH
    search.counts_together = federation.remote and not private and not earlier
    plan = plan_private(search, chosen, federation, baseline) if private else None
    return Prepared(chosen, search, plan, total, enqueued, baseline, wanted)


def _with_mechanism(evaluator: Evaluator, method: Method | Tuner, case: Case) -> Evaluator:
    """The evaluator with the private mechanism that is meant where none is named: `auto` chooses one."""
    privacy = evaluator.privacy
    if privacy is None or privacy.mechanism is not None:
        return evaluator
    mechanism = None
    if isinstance(method, Auto) and evaluator.average == "last":
        private = replace(case, epsilon=privacy.epsilon, rotates=privacy.rotates, gap=privacy.gap)
        mechanism = choose(private).mechanism
    return replace(evaluator, privacy=replace(privacy, mechanism=mechanism or DEFAULT))


def _as_begun(evaluator: Evaluator, begun: Mapping[str, Any] | None) -> Evaluator:
    """The evaluator as a run was begun with it: an earlier version may have had no comparison.

    It had "laplace" where none was named, whatever the method, and chose by whole scores.
    """
    then = ((begun or {}).get("evaluation") or {}).get("privacy")
    privacy = evaluator.privacy
    if privacy is None or then is None:
        return evaluator
    privacy = replace(privacy, mechanism=privacy.mechanism or then["mechanism"])
    if "held_out" not in then:
        privacy = replace(privacy, held_out=0.0, clip=1.0)
    if not privacy.releases_values and "gap" not in then:
        privacy = replace(privacy, gap=1.0)
    return replace(evaluator, privacy=privacy)


def _total(method: Method | Tuner, rounds: int, total: int | None, begun: Mapping[str, Any] | None) -> int:
    """The rounds over all trials. Of a method that trains once, none can be asked for but what 0.2.0 kept."""
    found = None if total is None else whole_number("total", total)
    if not method.trains_once:
        return 10 * rounds if found is None else found
    kept = max(rounds, total_of(begun or {}) or 0)
    if found not in (None, rounds, kept):
        refuse([f"total = {found}: {ONE_TRAINING.format(method.name)}: leave it out"])
    return kept


def _further(criteria: Criteria, metrics: Sequence[Any]) -> list[str]:
    """The metrics that criteria need and that are not given as objects of the user's own."""
    own = {metric.name for metric in metrics if isinstance(metric, Metric)}
    return [name for name in criteria.metrics if name not in own]

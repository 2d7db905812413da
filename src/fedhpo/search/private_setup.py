"""What must hold before a private search begins: a bounded score, uniform weights, a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import most_asked
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.metrics import BASE, Metric
from fedhpo.protocol.objective import BALANCED, Objective
from fedhpo.search.account import Account, BasicAccount, RotationAccount, RotationPlan
from fedhpo.search.comparison import comparison_of
from fedhpo.search.private import channel_of

if TYPE_CHECKING:
    from fedhpo.search.channel import Channel
    from fedhpo.search.release_plan import Plan, Planned
    from fedhpo.search.search import Search

#: What epsilon is about, for result.json and the report.
COVERS = (
    "what the method, this result and the record hold of any one client's validation scores; "
    "not the models that clients trained, nor who replied"
)

#: What a private run that draws on no ledger cannot notice.
COPIES = (
    "no ledger knows of this run's releases: a copy or an older state of its directory that goes on releases "
    "again under the same epsilon, and that is not noticed; set `budget` and `total` to have it noticed"
)


def check_scored(objective: Objective, federation: Federation, metrics: Sequence[Metric] = ()) -> None:
    """Refuse a metric that nobody computes, and a direction that is not its own."""
    own = {metric.name: metric.maximise for metric in metrics}
    name = objective.metric
    scored = name in BASE or name in own or (name == BALANCED and federation.scoring == BALANCED)
    if not scored and not federation.own_metrics:
        raise InputError(f"metric {name!r}: give it to fedhpo.tune(metrics=[fedhpo.Metric({name!r}, ...)])")
    if own.get(name, objective.maximise) != objective.maximise:
        raise InputError(f"direction: {name!r} says maximise={own[name]}, the objective the opposite")


def private_objective(objective: Objective, federation: Federation) -> Objective:
    """The objective with uniform weights; what cannot be private is refused.

    One of n clients moves a mean by at most 1/n only if scores lie in [0, 1] and all weigh the same. Training
    weighs clients the same too, so that what is scored is what is trained.
    """
    if objective.metric not in ("accuracy", "error", "loss", BALANCED) or objective.also:
        named = [name for name in (objective.metric, *objective.also) if name not in BASE]
        raise InputError(
            f"privacy: {', '.join(named)} is not defined at every client, so that one client could "
            "move its mean by more than 1/n: use 'accuracy' or 'error', and report nothing else"
        )
    if objective.metric == BALANCED and federation.scoring != BALANCED:
        raise InputError(f"privacy: metric {BALANCED!r} is for learners that score by it; use 'accuracy'")
    if objective.metric == "loss":
        raise InputError("privacy needs a score in [0, 1]: objective 'accuracy' or 'error', not 'loss'")
    if objective.over != "mean":
        raise InputError(
            f"privacy needs objective over = 'mean', not {objective.over!r}: one client could move it far"
        )
    if federation.describe().get("weighting") == "size":
        raise InputError(
            "privacy needs uniform training weights: weighting = 'uniform' of the federation "
            "([server] of a study), not 'size'"
        )
    return replace(objective, weighting="uniform")


@dataclass(frozen=True)
class PrivatePlan:
    """The channel that splits epsilon over the planned releases, and the most trials that they are for."""

    channel: Channel
    most_trials: int | None


def plan_private(search: Search, method: Planned, federation: Federation, baseline: bool) -> PrivatePlan:
    """Split the search's epsilon over the releases that the method will ask for.

    A release asks its cohort only: with rotation what counts is how often one client is asked. With basic
    accounting that holds inside rounds alone. Where the user's own config will be there at the end, clients
    or a part of epsilon are kept to compare the winner with it; see `fedhpo.search.comparison`.
    """
    privacy = search.evaluator.privacy
    assert privacy is not None
    given = privacy.evaluations
    plan = None if baseline else _planned(search, method, federation, baseline=False)
    if plan is None or plan.keeps_own:
        _keep_comparison(search, federation)
    else:
        _refuse_comparison(privacy, method)
    if plan is None or search.comparison is not None:
        plan = _planned(search, method, federation, baseline=baseline)
    planned = plan.releases + plan.looks
    if given is not None and given < planned:
        raise InputError(
            f"privacy.evaluations = {given}: must be at least {planned}, as {method.name} plans that many"
        )
    account: Account
    # In a budget over runs a client without a stable name may be any of those that were asked before.
    if privacy.rotates and (privacy.budget is None or stable_names(federation) is not None):
        account = RotationAccount(plan.rotation)
    else:
        looks = plan.looks + (0 if given is None else given - planned)
        account = BasicAccount(given or max(planned, 1), looks)
    channel = channel_of(search.evaluator, given or max(planned, 1), account=account)
    return PrivatePlan(channel, plan.trials or None)


def _refuse_comparison(privacy: Privacy, method: Planned) -> None:
    """Refuse what says how to compare with the user's own config, where that is not there at the end."""
    changed = {"held_out": (0.0, 0.2), "clip": (1.0,)}
    refuse(
        f"evaluation.privacy.{key} = {getattr(privacy, key):g}: has no effect with {method.name}, which does "
        "not train your own config to the end: leave it out, or write baseline = true in [budget]"
        for key, usual in changed.items()
        if getattr(privacy, key) not in usual
    )


def _keep_comparison(search: Search, federation: Federation) -> None:
    """Decide who compares at the end; where they search too, the search has the rest of epsilon."""
    evaluator = search.evaluator
    assert evaluator.privacy is not None
    asked = evaluator.clients if isinstance(evaluator.clients, int) else 1
    plan = comparison_of(evaluator.privacy, federation.validation_clients, search.seed, asked)
    if plan is not None:
        search.comparison = plan
        search.evaluator = replace(evaluator, privacy=replace(plan.privacy, epsilon=plan.search_epsilon))


def _planned(search: Search, method: Planned, federation: Federation, *, baseline: bool) -> Plan:
    """The releases that the method will ask for: counted, or as many as were given."""
    from fedhpo.search.release_plan import Plan, planned_releases

    privacy, plan = search.evaluator.privacy, search.comparison
    assert privacy is not None
    clients, trains = federation.validation_clients, federation.train_clients
    clients = clients if plan is None else plan.searched
    try:
        return planned_releases(method, search, clients, trains, federation.capabilities, baseline=baseline)
    except InputError:
        if privacy.evaluations is None:
            raise
        return Plan(0, 0, rotation=_unplanned(search, privacy.evaluations, len(clients)))


def _unplanned(search: Search, releases: int, clients: int) -> RotationPlan:
    """For a method that cannot be gone through without training: so many releases, each with its own slot.

    Values of several trials at the same clients may weigh as much as there are releases.
    """
    evaluator = search.evaluator
    assert evaluator.privacy is not None
    if evaluator.privacy.releases_values and evaluator.pairs(values=True):
        return RotationPlan(releases, looks=releases)
    return RotationPlan(most_asked(releases, evaluator.count(clients), clients))


def stable_names(federation: Federation) -> dict[int, str] | None:
    """What each client is called in every run; None where one has no such name, or two have the same."""
    clients = np.union1d(federation.validation_clients, federation.train_clients).tolist()
    found = {int(client): federation.stable_name(client) for client in clients}
    named = {client: name for client, name in found.items() if name is not None}
    return named if len(set(named.values())) == len(found) else None

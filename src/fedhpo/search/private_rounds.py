"""Private rounds: what a policy learns from inside a round is noisy sums by group (FedEx's arms).

A member of a cohort trains with one arm, so its score is part of one sum. Brought into [0, 1], it can move
that sum by 1 and no other sum at all: were one client's score another, the vector of all sums would differ
by at most 1 in L1. Laplace noise of scale 1/e on every sum makes a release e-differentially private for each
member, and costs clients that are not in the cohort nothing. A sum is released as the mean over its n
members, with noise of scale 1/(n e), which is the same; how many members an arm has is known to the server.

Epsilon composes over the releases that one client takes part in, over all trials; with rotation evaluations
are among them. The ledger is charged for the client with most of them: a release costs as much as it raises
that maximum. Who has been heard as often as was planned trains on, but is not heard any more. A first
baseline "pretrain" is one more mean of the same members, and weighs as one release more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.policies.sums import SumsState, heard
from fedhpo.privacy.means import noisy_mean
from fedhpo.protocol.federation import RoundReport

if TYPE_CHECKING:
    from fedhpo.privacy.noise import Noise
    from fedhpo.search.account import Account
    from fedhpo.search.private import PrivateChannel
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


class RoundReleases:
    """The releases of all rounds; who may be looked at, and how often, is the account's to say."""

    def __init__(self) -> None:
        self._releases = 0

    def learn(
        self, channel: PrivateChannel, search: Search, rounds: Sequence[tuple[Trial, RoundReport]]
    ) -> None:
        """Release what the members of these rounds say of their groups, all paid at once, or refused."""
        asked: list[tuple[Trial, SumsState, RoundReport, list[int]]] = []
        parts = 0
        weights: Counter[int] = Counter()
        for trial, report in rounds:
            policy = trial.policy
            assert isinstance(policy, SumsState)
            members = self._members(channel, search, report, policy.looks)
            if members:
                clients = report.cohort[members].tolist()
                parts += channel.account.hear(search, clients, policy.looks)
                weights.update(dict.fromkeys(clients, policy.looks))
                asked.append((trial, policy, report, members))
            else:
                policy.learn_sums(report, [], {}, None)
        if not asked:
            return

        def draw() -> list[Any]:
            noise = channel.noise(search, "sums", self._releases)
            return [_drawn(channel, search, noise, *one) for one in asked]

        key = [[trial.number, report.round, members] for trial, _, report, members in asked]
        epsilon = channel.charge(parts)
        asked_for = {"release": self._releases, "rounds": key}
        answers = search.session.decide("sums", asked_for, draw, epsilon=epsilon, each=channel.each(weights))
        self._releases += 1
        for (_, learner, report, members), answer in zip(asked, answers, strict=True):
            if answer is None:
                learner.learn_sums(report, [], {}, None)
            else:
                means = {int(group): value for group, value in answer["means"]}
                learner.learn_sums(report, members, means, answer["before"])

    def _members(self, channel: PrivateChannel, search: Search, report: RoundReport, looks: int) -> list[int]:
        """Who may be heard: too few are as good as none."""
        if not looks:
            return []
        places = {int(report.cohort[member]): member for member in heard(report)}
        able = [places[client] for client in channel.account.able(search, search.may_hear(places), looks)]
        return able if len(able) >= channel.privacy.least(len(report.cohort)) else []

    def to_dict(self, account: Account) -> dict[str, Any]:
        """For result.json: how often one client could be, and was, looked at inside rounds."""
        return {"planned": account.looks, "most": max(account.looked.values()), "releases": self._releases}


def _drawn(
    channel: PrivateChannel,
    search: Search,
    noise: Noise,
    trial: Trial,
    policy: SumsState,
    report: RoundReport,
    members: list[int],
) -> Mapping[str, Any] | None:
    """The release of one round; None where its scores went with a server that stopped before they were drawn.

    Where rounds can be repeated that does not happen: the round is then run again.
    """
    whole = search.session.withheld(trial.number, report.round)
    if whole is None:
        return None
    scores = policy.grouped(whole, members)
    means = [
        [int(group), noisy_mean(scores.values[scores.groups == group], channel.epsilon_each, noise)[0]]
        for group in np.unique(scores.groups)
    ]
    first = None if scores.before is None else noisy_mean(scores.before, channel.epsilon_each, noise)[0]
    return {"means": means, "before": first}

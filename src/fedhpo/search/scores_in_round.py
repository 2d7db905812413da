"""Which scores clients take inside rounds: what policy and exchange learn from, as privacy allows."""

from __future__ import annotations

from fedhpo.core.errors import InputError
from fedhpo.core.settings import settings_of
from fedhpo.policies.sums import SumsPolicy
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import PRODUCTS, SCORES_IN_ROUND
from fedhpo.protocol.policy import ClientPolicy
from fedhpo.space import Space


def scores_in_round(
    policy: ClientPolicy, exchanged: tuple[str, ...], space: Space, privacy: Privacy | None
) -> tuple[str, ...]:
    """The policy's scores and those of an exchange; of private ones only what noisy sums are made of.

    >>> from fedhpo.policies import Fixed
    >>> scores_in_round(Fixed(), ("after",), Space(client={"lr": 0.1}), None)
    ('before', 'after')
    """
    if privacy is None:
        return tuple(dict.fromkeys((*policy.scores, *exchanged)))
    if PRODUCTS in policy.needs:
        raise InputError(
            f"privacy: {settings_of(policy)['name']} learns from products of clients' updates, which are "
            "not private: use fedex, or a method that learns from evaluations only, such as sha or tpe"
        )
    if not exchanged and isinstance(policy, SumsPolicy):
        policy.check_private(space, privacy)
        return policy.scores
    if SCORES_IN_ROUND in policy.needs or exchanged:
        name = "fedpop (its exchange)" if exchanged else settings_of(policy)["name"]
        raise InputError(
            f"privacy: {name} learns from scores inside rounds, which are not private: use fedex, or a "
            "method that learns from evaluations only, such as sha, hyperband or tpe"
        )
    return ()

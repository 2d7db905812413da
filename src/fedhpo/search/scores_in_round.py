"""Which scores clients take inside rounds: what policy and exchange learn from, as privacy allows."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from fedhpo.core.errors import InputError
from fedhpo.core.settings import settings_of
from fedhpo.policies.sums import SumsPolicy
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import PRODUCTS, SCORES_IN_ROUND
from fedhpo.protocol.policy import ClientPolicy
from fedhpo.space import Space


@runtime_checkable
class SinglePolicy(Protocol):
    """A policy that cannot do without single clients' scores, and says why."""

    @property
    def not_private(self) -> str:
        """One sentence for who asks for privacy."""


@runtime_checkable
class PrivateExchange(Protocol):
    """An exchange that goes by private evaluations where scores are private, and by none inside rounds."""

    def check_private(self, privacy: Privacy) -> None:
        """Refuse a privacy that it cannot work with."""


def scores_in_round(
    policy: ClientPolicy, exchange: Any, space: Space, privacy: Privacy | None
) -> tuple[str, ...]:
    """The policy's scores and those of an exchange; of private ones only what noisy sums are made of.

    >>> from fedhpo.policies import Fixed
    >>> scores_in_round(Fixed(), None, Space(client={"lr": 0.1}), None)
    ('before',)
    """
    exchanged: tuple[str, ...] = () if exchange is None else exchange.scores
    if privacy is None:
        return tuple(dict.fromkeys((*policy.scores, *exchanged)))
    if PRODUCTS in policy.needs:
        raise InputError(
            f"privacy: {settings_of(policy)['name']} learns from products of clients' updates, which are "
            "not private: use fedex, or a method that learns from evaluations only, such as sha or tpe"
        )
    if isinstance(exchange, PrivateExchange):
        exchange.check_private(privacy)
        exchanged = ()
    if not exchanged and isinstance(policy, SumsPolicy):
        policy.check_private(space, privacy)
        return policy.scores
    if isinstance(policy, SinglePolicy):
        raise InputError(f"privacy: {policy.not_private}")
    if SCORES_IN_ROUND in policy.needs or exchanged:
        name = "the exchange" if exchanged else settings_of(policy)["name"]
        raise InputError(
            f"privacy: {name} learns from scores inside rounds, which are not private: use fedex, or a "
            "method that learns from evaluations only, such as sha, hyperband or tpe"
        )
    return ()

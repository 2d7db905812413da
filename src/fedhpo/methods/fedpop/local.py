"""FedPop-L: a population of client vectors inside each trial (Chen et al., 2025, Algorithm 1).

Each of a cohort's K slots has a vector of client hyperparameters (beta^k) near the trial's own (beta^0, the
base). After every round the vectors of the slots with the worst losses are replaced by perturbed copies of
those with the best, and kept in the ball around the base. What is drawn anew is drawn inside that ball:
draws from the prior would nearly all end up on its border. A trial whose base changes begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.methods.fedpop.evolution import Evolution, ResampleBy, bottom_and_top
from fedhpo.methods.fedpop.score import discounted
from fedhpo.policies.losses import client_losses
from fedhpo.protocol.federation import AFTER, BEFORE, CLIENT_CONFIGS, SCORES_IN_ROUND, RoundReport
from fedhpo.schedules.annealing import Annealing
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.search.search import Search

#: Settings that may be tuned in the space's scope `policy`.
TUNABLE = ("eps", "resample", "radius")
_SCOPES = ("client",)


@dataclass(frozen=True)
class FedPopLocal:
    """FedPop-L as a client policy.

    Parameters
    ----------
    eps, resample
        How far a perturbed hyperparameter moves at most, as a share of its range, and the probability that
        it is drawn anew inside the ball; both annealed ("cosine", "constant" or "step").
    resample_by
        Whether each "coordinate" has a coin of its own for that, or the whole "vector" one.
    radius, norm
        How far vectors may be from the base: in each coordinate, as a share of its range (norm "box"),
        or as the length of the whole difference ("euclidean"). `eps` by default.
    quantile
        The worst and the best 1/quantile of the slots are exchanged.
    rounds
        Over how many rounds is annealed; those of a full training by default.
    every, discount
        Rounds between two selections, and a round's weight in a slot's mean loss over them, compared with the
        next round's. The paper selects after every round.
    until
        The share of a full training, counted from the base's beginning, in which vectors are selected. Then
        everybody gets the vector with the best mean. 1 selects to the end; 0 never selects, and keeps the
        vectors that were drawn first.

    Examples
    --------
    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True)})
    >>> state = FedPopLocal(rounds=10).begin(space.default(), space, np.random.default_rng(0))
    >>> [0.063 < vector["lr"] < 0.159 for vector in state.assign([4, 9, 2], np.random.default_rng(1))]
    [True, True, True]
    """

    eps: float = 0.1
    resample: float = 0.1
    annealing: Annealing = "cosine"
    radius: float | None = None
    norm: Literal["box", "euclidean"] = "box"
    quantile: int = 3
    rounds: int | None = None
    resample_by: ResampleBy = "coordinate"
    every: int = 1
    discount: float = 0.0
    until: float = 1.0

    #: It spends no rounds of its own before the search; see `prepare`.
    rounds_before = 0

    def __post_init__(self) -> None:
        check_settings(self)
        _ = self.evolution
        whole_number("quantile", self.quantile, least=2)
        whole_number("every", self.every, least=1)
        for name in ("discount", "until"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in [0, 1], not {getattr(self, name)!r}")
        if self.discount and self.every == 1:
            found = f"discount = {self.discount:g}: has no effect with every = 1, which goes by one round"
            refuse([f"{found}: leave it out, or raise every"])
        if self.radius is not None and not 0 <= self.radius < math.inf:
            raise InputError(f"radius must be a finite number of at least 0, not {self.radius!r}")
        if self.norm not in ("box", "euclidean"):
            raise unknown_name("norm", self.norm, ("box", "euclidean"))

    @property
    def evolution(self) -> Evolution:
        """How vectors are perturbed."""
        return Evolution(self.eps, self.resample, self.annealing, self.resample_by)

    @property
    def needs(self) -> frozenset[str]:
        """A config for each client, and scores inside a round."""
        return frozenset({CLIENT_CONFIGS, SCORES_IN_ROUND})

    @property
    def scores(self) -> tuple[str, ...]:
        """Before training, for the learning curve, and after it."""
        return BEFORE, AFTER

    @property
    def not_private(self) -> str:
        """Why it is refused with privacy."""
        return (
            "its local half goes by the score of the one client in each slot, and noise that hides one "
            "client leaves nothing to go by: use local = false, or fedex"
        )

    def prepare(self, search: Search) -> FedPopLocal:
        """The same policy, knowing how long a full training is."""
        return self if self.rounds is not None else replace(self, rounds=search.rounds)

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> FedPopState:
        """The population around a config; its vectors are drawn when the first cohort is known."""
        settings = self.tuned(config)
        if settings.rounds is None:
            raise InputError("rounds must be given: over how many rounds FedPop-L anneals")
        return FedPopState(settings, settings.rounds, config, space, rng)

    def tuned(self, config: Config) -> FedPopLocal:
        """These settings with what the config's scope `policy` says otherwise.

        >>> FedPopLocal().tuned(Config(policy={"eps": 0.2})).eps
        0.2
        """
        for name in config.policy:
            if name not in TUNABLE:
                raise unknown_name("setting of fedpop in space.policy", name, TUNABLE)
        return replace(self, **config.policy) if config.policy else self

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "fedpop", **asdict(self)}


class FedPopState:
    """One trial's vectors, slot by slot."""

    def __init__(
        self, settings: FedPopLocal, rounds: int, base: Config, space: Space, rng: np.random.Generator
    ) -> None:
        self.base = base
        self._vectors: list[Config] = []
        self._losses: list[list[float]] = []
        self._age = 0
        self._settings, self._rounds, self._space, self._rng = settings, rounds, space, rng
        self._radius = settings.eps if settings.radius is None else settings.radius

    @property
    def vectors(self) -> list[Mapping[str, Any]]:
        """The client hyperparameters of each slot; none before the first round."""
        return [vector.client for vector in self._vectors]

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> list[Mapping[str, Any]]:
        """Each member of the cohort gets the vector of its slot."""
        while len(self._vectors) < len(cohort):
            drawn = self._space.ball(self.base, self._radius, self._rng, _SCOPES)
            self._vectors.append(self._inside(drawn))
            self._losses.append([])
        return self.vectors[: len(cohort)]

    def learn(self, report: RoundReport) -> None:
        """Algorithm 1, function FedPop-L; slots without a score keep their vectors."""
        losses = client_losses(report).tolist()
        unused = [math.nan] * (len(self._losses) - len(losses))  # this cohort was smaller
        for known, loss in zip(self._losses, [*losses, *unused], strict=True):
            known.append(loss)
        self._age += 1
        selecting = round(self._settings.until * self._rounds)
        if self._age <= selecting and self._age % self._settings.every == 0:
            self._select(report.round)
        if 0 < self._age == selecting < self._rounds:
            self._settle()

    def _means(self) -> list[float]:
        every, discount = self._settings.every, self._settings.discount
        return [discounted(losses, every, discount) for losses in self._losses]

    def _settle(self) -> None:
        """Everybody gets the vector with the best mean from here on."""
        known = [(loss, slot) for slot, loss in enumerate(self._means()) if math.isfinite(loss)]
        if known:
            self._vectors = [self._vectors[min(known)[1]]] * len(self._vectors)

    def _select(self, number: int) -> None:
        losses = self._means()
        bottom, top = bottom_and_top(losses, self._settings.quantile)
        better = [self._vectors[slot] for slot in top if math.isfinite(losses[slot])]
        for slot in bottom if better else []:
            chosen = better[int(self._rng.integers(len(better)))]
            moved = self._settings.evolution.perturbed(
                chosen,
                self._space,
                number,
                self._rounds,
                self._rng,
                _SCOPES,
                (self.base, self._radius),
            )
            self._vectors[slot] = self._inside(moved)
            self._losses[slot] = []

    def _inside(self, vector: Config) -> Config:
        """Pulled back into the ball around the base."""
        return self._space.clip_to_ball(vector, self.base, self._radius, _SCOPES, self._settings.norm)

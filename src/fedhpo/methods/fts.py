"""Federated Thompson sampling (Dai, Low and Jaillet, 2020, Federated Bayesian optimization, NeurIPS 2020).

Each client searches on its own rows and sends the weights of random features, sampled from the posterior of
its own search: one vector, never a config with its loss. The server then tries one config after the other.
At step t it goes, with probability p_t, by a sample of the posterior of what the federation scored so far,
else by the weights of a client drawn at random. As p_t goes to 1, clients that differ do no lasting harm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.methods.local_training import check_local_rounds
from fedhpo.policies import Fixed
from fedhpo.protocol.bounds import MOST
from fedhpo.protocol.federation import QUERY, Answer, Federation, Status
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import local_scoring
from fedhpo.protocol.sampler import Observation
from fedhpo.queries.local_search import LocalSearch
from fedhpo.schedules import FixedLength
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube
from fedhpo.surrogates.features import RandomFeatures
from fedhpo.surrogates.refine import best_points

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


@dataclass(frozen=True)
class FTS(Method):
    """Federated Thompson sampling: trials one after the other, led by clients' own searches at first.

    `trials` as many as the total pays for by default. Each client tries `configs` configs of its own, each
    trained for `local_rounds` (by default as many rounds as a trial), and sends the weights of `features`
    random features. The server goes by its own scores with probability `1 - t^-decay` at step t. At least
    `minimum` clients must answer.
    """

    trials: int | None = None
    configs: int = 20
    local_rounds: int | None = None
    features: int = 100
    decay: float = 0.5
    minimum: int = 1

    name: ClassVar[str] = "fts"
    needs = frozenset({QUERY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay <= 0 or min(self.configs, self.features, self.minimum) < 1:
            raise InputError("decay must be positive; configs, features and minimum at least 1")
        FixedLength(self.trials, 1)

    def rounds(self, search: Search) -> int:
        """One training for each trial."""
        if not _local(search.space).names:
            raise InputError("fts has nothing that clients can search: no client or model hyperparameter")
        if search.evaluator.privacy is not None:
            raise InputError("privacy: fts is not private: clients tell what they learned from their rows")
        return FixedLength(self.trials, 1).rounds(search, Thompson((), self.features, self.decay, 0))

    def check_federation(self, federation: Federation) -> None:
        """Learners are trained whole."""
        check_local_rounds(self.local_rounds, federation)

    def run(self, search: Search) -> Trial:
        """Ask the clients for their weights, then try one config after the other."""
        space, session = _local(search.space), search.session
        rounds = search.rounds if self.local_rounds is None else self.local_rounds
        query = LocalSearch(
            space,
            configs=self.configs,
            rounds=rounds,
            scoring=local_scoring(search.objective.metric),
            seed=derive(search.seed, "fts"),
            features=self.features,
        )
        answers = session.query(query, session.train_clients)
        weights = tuple(sent for answer in answers if (sent := self._weights(answer)) is not None)
        search.facts[self.name] = {"answered": len(weights), "asked": len(answers)}
        if len(weights) < self.minimum:
            why = next((f": client {a.client}: {a.reason}" for a in answers if a.reason), "")
            raise InputError(f"{len(weights)} of {len(answers)} clients answered, {self.minimum} must{why}")
        sampler = Thompson(weights, self.features, self.decay, query.seed)
        return FixedLength(self.trials, 1).run(search, sampler, Fixed())

    def _weights(self, answer: Answer) -> tuple[float, ...] | None:
        """What a client sent, if it can be used: clients are not to be trusted with its form."""
        found = answer.content.get("weights") if isinstance(answer.content, Mapping) else None
        if answer.status != Status.OK or not isinstance(found, list) or len(found) != self.features:
            return None
        numbers = all(isinstance(value, float | int) and abs(value) <= MOST for value in found)
        return tuple(map(float, found)) if numbers else None


@dataclass(frozen=True)
class Thompson:
    """The sampler: minimises a sampled function, the federation's own or that of a client."""

    weights: tuple[tuple[float, ...], ...]
    features: int
    decay: float
    seed: int

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The config at the minimum, not tried before."""
        known = [seen for seen in observations if math.isfinite(seen.score.rank_value)]
        own = len(known) > 1 and rng.random() < 1 - len(asked) ** -self.decay
        if own:
            part, features = space, RandomFeatures(space, self.features, self.seed)
            values = np.array([seen.score.rank_value for seen in known])
            weights = features.sampled(Cube(space).points(s.config for s in known), values, rng)
        else:  # clients know nothing of the server's hyperparameters: these stay as in the best trial
            part = _local(space)
            features = RandomFeatures(part, self.features, self.seed)
            weights = np.array(self.weights[int(rng.integers(len(self.weights)))])
        best = min(known, key=lambda seen: seen.score.rank_value).config if known else space.default()
        for point in best_points(Cube(part), lambda points: -(features(points) @ weights), rng):
            found = part.from_unit(point)
            config = found if own else _joined(space, found, best)
            if config not in asked and (pool is None or config in pool):
                return config
        return None


def _local(space: Space) -> Space:
    """What clients search over: their own hyperparameters and the model's; the others at their defaults."""
    return space.subspace(("client", "model"), space.default())


def _joined(space: Space, found: Config, best: Config) -> Config:
    """What a client's weights led to, with the server's part of the best trial where that goes together."""
    try:
        return space.complete(best.replace(client=found.client, model=found.model))
    except InputError:  # a condition between the two parts
        return found

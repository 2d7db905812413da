"""FLoRA's local search: each party tunes on its own rows, and sends (config, loss) pairs and its size.

Lines 2 to 4 of Algorithm 1 (Zhou et al., 2023). `LocalSearch` is what is asked, `PartySearch` the party's
side of it, and `side_by_side` runs many parties at once, none waiting for another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings, shown, whole_number
from fedhpo.core.streams import stream
from fedhpo.privacy.local import LocalPrivacy, bounded
from fedhpo.protocol.federation import Answer, Cost, Status
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.protocol.sampler import Sampler
from fedhpo.queries.public_list import public_list
from fedhpo.queries.smoothing import smoothed
from fedhpo.samplers import TPE, Asker
from fedhpo.space import Space
from fedhpo.space.config import Config


@dataclass(frozen=True)
class LocalSearch:
    """Search at each party, over its private training rows.

    An answer's content is that of a `PartyPairs`: `configs`, their `losses`, and `size`, the party's
    number of training rows. With `features` it is `weights` in place of configs and losses. Nothing else
    comes back.

    Parameters
    ----------
    space
        What a party can see of the space: the scopes `client` and `model`.
    configs
        How many configs each party tries (the paper's T); the default config first, if `try_default`.
    best
        How many pairs it sends, those of lowest loss (the paper's T'); all by default.
    spread
        Of these send half as the best, and half spread over the quantiles of the other losses.
    sampler
        How it searches; TPE by default.
    listed
        Try a fixed list of configs instead, the same at every party: see `public_list`. With `privacy` the
        party then sends `best` of them (1 by default), by a private choice, with noisy losses.
    folds
        Folds inside a party. By default 10 for learners; a torch model is scored on the party's own
        validation rows instead.
    scoring
        What the loss is 1 minus of: of learners a scorer of scikit-learn, the federation's own by default
        (or by the name "loss"); of torch models "accuracy", the default, or "loss" for the model's own
        loss. FLoRA sets it to the metric of the objective.
    rounds
        Of torch models: how often local training, with the config's epochs, follows on itself.
    deadline
        Seconds after which a party that has not finished is left out.
    privacy
        A private choice from a list, or noise on each loss that a sampler sees; see `LocalPrivacy`.
    features
        If given, a party sends weights of so many random features, sampled from the posterior of its search,
        in place of what it tried; see `fedhpo.surrogates.features`.
    journal
        Where a simulation keeps the losses, so that it goes on where it was stopped. Not sent, and not
        written with `privacy`.
    """

    space: Space
    configs: int = 100
    best: int | None = None
    sampler: Sampler = field(default_factory=TPE)
    folds: int | None = None
    scoring: str | None = None
    rounds: int = 1
    deadline: float | None = None
    privacy: LocalPrivacy | None = None
    try_default: bool = True
    seed: int = 0
    journal: Path | None = None
    features: int | None = None
    spread: bool = False
    listed: bool = False

    name: ClassVar[str] = "local_search"

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.space, Space):
            raise InputError(f"space must be a fedhpo.Space, not {shown(self.space)}")
        if isinstance(self.sampler, type) or not hasattr(self.sampler, "suggest"):
            raise InputError(
                f"sampler must be a sampler, such as fedhpo.samplers.TPE(), not {shown(self.sampler)}"
            )
        whole_number("seed", self.seed, least=0)
        for name in ("configs", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.best is not None and not 1 <= self.best <= self.configs:
            raise InputError(f"best must lie in 1..{self.configs} (configs), not {self.best}")
        if self.folds is not None and self.folds < 2:
            raise InputError(f"folds must be at least 2, not {self.folds}")
        if self.deadline is not None and not self.deadline > 0:
            raise InputError(f"deadline must be a positive number of seconds, not {self.deadline!r}")
        if not self.space.names:
            raise InputError("space has nothing that a local search sees: no client or model hyperparameter")
        if self.listed and self.features is not None:
            raise InputError("features need a search that goes by losses: leave listed out")
        if self.privacy is not None:
            if self.listed and self.best is None:
                object.__setattr__(self, "best", 1)
            self.privacy.check(self.configs, self.chosen)

    @property
    def chosen(self) -> int | None:
        """How many a party chooses privately from a list; None where a sampler sees noisy losses, or all."""
        return self.best if self.listed and self.privacy is not None else None

    def to_dict(self) -> dict[str, Any]:
        """What is sent to the parties."""
        return {
            "space": self.space.to_dict(),
            "configs": self.configs,
            "best": self.best,
            "sampler": _written(self.sampler),
            "folds": self.folds,
            "scoring": self.scoring,
            "rounds": self.rounds,
            "deadline": self.deadline,
            "privacy": None if self.privacy is None else self.privacy.to_dict(self.configs, self.chosen),
            "try_default": self.try_default,
            "seed": self.seed,
            **({} if self.features is None else {"features": self.features}),
            **({"spread": True} if self.spread else {}),
            **({"listed": True} if self.listed else {}),
        }


def _written(sampler: Sampler) -> dict[str, Any]:
    """A sampler's name and settings, JSON-able: what is no plain value is told, but cannot be read back."""
    settings: dict[str, Any] = vars(sampler) if is_dataclass(sampler) else {}
    plain = bool | int | float | str | None
    return {
        "name": type(sampler).__name__,
        **{name: value if isinstance(value, plain) else repr(value) for name, value in settings.items()},
    }


class PartySearch:
    """The party's side: which config to try next, what was seen, and what is sent.

    >>> from fedhpo.space import Float
    >>> query = LocalSearch(Space(client={"lr": Float(0, 1)}), configs=30, best=2)
    >>> search = PartySearch(query, party=0, size=120)
    >>> while (config := search.ask()) is not None:
    ...     search.tell(abs(config.client["lr"] - 0.3))
    >>> content = search.answer().content
    >>> sorted(content), len(content["configs"]), content["losses"][0] < 0.1
    (['configs', 'losses', 'size'], 2, True)
    """

    def __init__(self, query: LocalSearch, party: int, size: int) -> None:
        self.party, self.size, self._query = party, size, query
        listed: tuple[Config, ...] = ()
        if query.listed:
            listed = public_list(query.space, query.configs, query.seed, query.try_default)
        own = (query.space.default(),) if query.try_default else ()
        self._asker = Asker(
            query.space,
            query.sampler,
            seed=query.seed,
            enqueue=listed or own,
            limit=len(listed) or query.configs,
            purpose=("local search", party),
        )
        self._reason = ""
        self.samples = 0

    @property
    def tried(self) -> int:
        """How many configs were scored."""
        return len(self._asker.observations)

    def ask(self) -> Config | None:
        """The next config to try; None when the search is over."""
        return self._asker.ask()

    def tell(self, loss: float | None, reason: str = "") -> None:
        """The loss of the config asked for last; None, and the reason, where it could not be trained."""
        query, number = self._query, self.tried
        self._reason = self._reason or reason
        if query.chosen is not None:
            loss = bounded(loss)  # stays here: the list goes on whatever it is
        elif query.privacy is not None:
            # Whether a config could be trained is a fact about the rows too: it counts as the worst loss.
            rng = stream(query.seed, "local noise", self.party, number)
            loss = query.privacy.noisy(bounded(loss), query.configs, rng)
        value = math.inf if loss is None or math.isnan(loss) else loss
        self._asker.tell(number, value)

    def answer(self) -> Answer:
        """What the party sends: pairs and size, or that no config could be trained."""
        from fedhpo.queries.pairs import PartyPairs

        known = [seen for seen in self._asker.observations if math.isfinite(seen.score.value)]
        if not known:
            why = Why.RAISED if self._reason else Why.DIVERGED
            first = self._reason or "its loss is not finite"
            reason = Reason(why, f"no config could be trained; the first: {first}")
            return Answer(self.party, Status.FAILED, reason=reason, cost=self._cost(None))
        configs, losses = zip(*((seen.config, seen.score.value) for seen in known), strict=True)
        if self._query.features is not None:
            content = {"weights": self._weights(configs, losses), "size": self.size}
            return Answer(self.party, Status.OK, content, cost=self._cost(content))
        if self._query.privacy is not None and self._query.chosen is not None:
            rng = stream(self._query.seed, "local choice", self.party)
            told = smoothed(self._query.space, configs, losses)
            best = self._query.privacy.best(told, self._query.chosen, rng)
            configs, losses = zip(*((configs[place], loss) for place, loss in best), strict=True)
        pairs = PartyPairs(self.party, self.size, configs, losses)
        if self._query.best is not None and self._query.chosen is None:
            pairs = pairs.spread(self._query.best) if self._query.spread else pairs.best(self._query.best)
        content = pairs.to_dict()
        return Answer(self.party, Status.OK, content, cost=self._cost(content))

    def _weights(self, configs: Sequence[Config], losses: Sequence[float]) -> list[float]:
        """What was learned, as weights of random features."""
        from fedhpo.surrogates.cube import Cube
        from fedhpo.surrogates.features import RandomFeatures

        query = self._query
        features = RandomFeatures(query.space, query.features or 1, query.seed)
        rng = stream(query.seed, "weights", self.party)
        found = features.sampled(Cube(query.space).points(configs), np.array(losses), rng)
        return [float(weight) for weight in found]

    def late(self, seconds: float) -> Answer:
        """That the party had not finished in time."""
        tried = f"{self.tried} of {self._query.configs} configs tried"
        reason = Reason(Why.LATE, f"late: {tried} in {seconds:g} s")
        return Answer(self.party, Status.MISSING, reason=reason, cost=self._cost(None))

    def _cost(self, content: Any) -> Cost:
        return Cost(
            bytes_down=len(canonical(self._query.to_dict())),
            bytes_up=0 if content is None else len(canonical(content)),
            samples=self.samples,
            evaluations=self.tried,
        )


def unable(query: LocalSearch, party: int, reason: str) -> Answer:
    """That a party cannot search at all, such as one without rows: the query was sent to it all the same."""
    down = Cost(bytes_down=len(canonical(query.to_dict())))
    return Answer(party, Status.FAILED, reason=Reason(Why.RAISED, reason), cost=down)

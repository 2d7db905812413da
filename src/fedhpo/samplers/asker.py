"""Ask for a config, tell its score: a sampler driven by your own loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import plain_number, shown, whole_number
from fedhpo.core.streams import stream
from fedhpo.protocol.method import part_of_method
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation, Recommender, Sampler
from fedhpo.samplers.tpe import TPE
from fedhpo.space import Space
from fedhpo.space.config import Config


class Asker:
    """Suggests configs of a space and learns from their scores; you train them.

    It needs no federation and keeps no files. The same seed and the same scores give the same configs, also
    where it was stopped in between and went on from `to_dict`.

    Parameters
    ----------
    space
        What is searched.
    sampler
        How; TPE by default.
    seed
        Of all its random numbers.
    enqueue
        Configs that come first, in this order.
    pool
        If given, only these configs are suggested.
    limit
        How many configs there are at most.
    maximise
        Whether more is better; by default a score is a loss.
    purpose
        Names the random stream, for many askers under one seed.

    Examples
    --------
    >>> import fedhpo as fh
    >>> space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "momentum": fh.Float(0.0, 0.9)})
    >>> asker = fh.Asker(space, fh.samplers.TPE(), seed=0, limit=40)
    >>> while (config := asker.ask()) is not None:
    ...     lr, momentum = config.client["lr"], config.client["momentum"]
    ...     asker.tell(config, (lr - 0.1) ** 2 + (momentum - 0.5) ** 2)
    >>> best, loss = asker.best
    >>> loss < 0.01
    True
    """

    def __init__(
        self,
        space: Space,
        sampler: Sampler | None = None,
        *,
        seed: int = 0,
        enqueue: Sequence[Config] = (),
        pool: Sequence[Config] | None = None,
        limit: int | None = None,
        maximise: bool = False,
        purpose: tuple[str | int, ...] = ("ask",),
    ) -> None:
        if not isinstance(space, Space):
            raise InputError(f"space must be a fedhpo.Space, not {shown(space)}")
        sampler = TPE() if sampler is None else sampler
        if isinstance(sampler, type) or not hasattr(sampler, "suggest"):
            raise InputError(
                f"sampler must be a sampler, such as fedhpo.samplers.TPE(), not {shown(sampler)}"
                f"{part_of_method(sampler, 'sampler')}"
            )
        self.space, self.sampler = space, sampler
        self.seed = whole_number("seed", seed, least=0)
        self.limit = None if limit is None else whole_number("limit", limit)
        self.maximise = maximise
        self._enqueued, self._pool, self._purpose = tuple(enqueue), pool, purpose
        self._asked: list[Config] = []
        self._seen: list[Observation] = []

    @property
    def asked(self) -> Sequence[Config]:
        """All configs that were asked for; a config's number is its place here."""
        return tuple(self._asked)

    @property
    def observations(self) -> Sequence[Observation]:
        """What was told, in that order."""
        return tuple(self._seen)

    @property
    def pending(self) -> list[Config]:
        """Configs that were asked for and of which nothing was told."""
        told = {seen.trial for seen in self._seen}
        return [config for number, config in enumerate(self._asked) if number not in told]

    @property
    def best(self) -> tuple[Config, float] | None:
        """The config with the best score, the first of several, and that score; None if none is known."""
        known = [seen for seen in self._seen if math.isfinite(seen.score.rank_value)]
        if not known:
            return None
        found = min(known, key=lambda seen: seen.score.rank_value)
        return found.config, found.score.value

    def recommended(self) -> int | None:
        """The number of the config that the sampler's model finds best, where scores are noisy.

        None where scores are exact or few, or the sampler has no model: then `best` says it.
        """
        if not isinstance(self.sampler, Recommender):
            return None
        rng = stream(self.seed, *self._purpose, "recommend")
        return self.sampler.recommend(self.space, self._seen, range(len(self._asked)), rng)

    def ask(self, prefer: Sequence[Config] = ()) -> Config | None:
        """The next config to try, or None if there is none left.

        The first of `prefer` that was not asked for before, and is in the pool, comes before a suggestion.
        """
        number = len(self._asked)
        if self.limit is not None and number >= self.limit:
            return None
        if number < len(self._enqueued):
            config: Config | None = self._enqueued[number]
        else:
            config = next((one for one in prefer if self._is_new(one)), None) or self._suggest(number)
        if config is not None:
            self._asked.append(config)
        return config

    def _is_new(self, config: Config) -> bool:
        return config not in self._asked and (self._pool is None or config in self._pool)

    def _suggest(self, number: int) -> Config | None:
        rng = stream(self.seed, *self._purpose, number)
        return self.sampler.suggest(self.space, self._seen, self._asked, rng, self._pool)

    def tell(
        self, asked: Config | int, score: float, *, standard_error: float = 0.0, rounds: int = 1
    ) -> None:
        """The score of a config that was asked for, or of its number; NaN if it could not be trained.

        A config may be told of again, after more `rounds`. `standard_error` is how much the score may be off;
        NaN if that is not known.
        """
        number = self._number(asked)
        value, error = float(score), plain_number(standard_error)
        if not isinstance(error, int | float) or error < 0:
            raise InputError(f"standard_error must be a number of at least 0, not {shown(standard_error)}")
        rank = -value if self.maximise else value
        found = Score(
            value,
            float(error),
            1,
            whole_number("rounds", rounds),
            rank if math.isfinite(rank) else math.inf,
        )
        self._seen.append(Observation(number, self._asked[number], found))

    def add(self, config: Config, score: float, *, standard_error: float = 0.0, rounds: int = 1) -> None:
        """A config that was tried elsewhere, and its score: as if it had been asked for and told."""
        self._asked.append(config)
        self.tell(len(self._asked) - 1, score, standard_error=standard_error, rounds=rounds)

    def _number(self, asked: Config | int) -> int:
        if isinstance(asked, int):
            if not 0 <= asked < len(self._asked):
                raise InputError(f"no config has the number {asked}: {len(self._asked)} were asked for")
            return asked
        numbers = [number for number, config in enumerate(self._asked) if config == asked]
        if not numbers:
            raise InputError(f"config was not asked for: {shown(asked)}")
        told = {seen.trial for seen in self._seen}
        return next((number for number in numbers if number not in told), numbers[-1])

    def to_dict(self) -> dict[str, Any]:
        """All it takes to go on, JSON-able: give it to `restore`."""
        return {
            "space": self.space.to_dict(),
            "seed": self.seed,
            "asked": [config.to_dict() for config in self._asked],
            "told": [
                {
                    "number": seen.trial,
                    "score": seen.score.value if math.isfinite(seen.score.value) else None,
                    "standard_error": seen.score.standard_error,
                    "rounds": seen.score.round,
                }
                for seen in self._seen
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> Asker:
        """Go on where another with the same settings was: what it asked and was told, from `to_dict`."""
        if self._asked:
            raise InputError("restore is for an asker that was not asked yet")
        for name, own in (("space", self.space.to_dict()), ("seed", self.seed)):
            if state[name] != own:
                raise InputError(f"{name} is not that of the state: {shown(own)}, there {shown(state[name])}")
        self._asked = [Config.from_dict(config) for config in state["asked"]]
        for told in state["told"]:
            score = math.nan if told["score"] is None else told["score"]
            self.tell(told["number"], score, standard_error=told["standard_error"], rounds=told["rounds"])
        return self

"""Outside proposals: a person's, an agent's or a file's configs take a share of the trials.

The rest stays with a sampler of ours, which learns from all trials alike. A proposal is an outside choice:
the search records it as it records what samplers suggest (`Session.decide`), so that a run that is resumed
has the same trials without asking anybody again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.protocol.sampler import Observation, Recommender, Sampler, limit_of
from fedhpo.samplers.bohb import BOHB
from fedhpo.samplers.gp import GP
from fedhpo.samplers.random import Random
from fedhpo.samplers.tpe import TPE
from fedhpo.space import Space
from fedhpo.space.config import Config

SAMPLERS: Mapping[str, type[Any]] = {"random": Random, "tpe": TPE, "gp": GP, "bohb": BOHB}
#: More bytes, or more lines, are not read of a file that others write.
MOST_BYTES, MOST_LINES = 1 << 20, 10_000
#: Proposals, and other trials, that must be scored before they are compared.
LEAST = 3


@dataclass(frozen=True)
class Proposals:
    """Takes at most a share of trials from outside, the others from a sampler.

    Parameters
    ----------
    file
        Lines of JSON, each a config: `{"client": {"lr": 0.1}}`, where what is left out has its default. The
        file is read when a trial begins, so that lines may be added while the study runs. A line that is no
        config of the space is passed over, with a warning.
    ask
        In place of a file, a function: `ask(space, observations)` returns a config, a mapping as above, or
        None.
    share
        The share of trials, counted from the first, that proposals have at most. Those of a file have less
        once they stand in the worse half of all trials: see `trust`.
    sampler
        Who suggests the rest: "random", "tpe", "gp", "bohb", or in Python a sampler with its settings.

    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0)})
    >>> mine = Proposals(ask=lambda space, seen: {"client": {"lr": 0.5}}, share=1.0)
    >>> mine.suggest(space, [], [], np.random.default_rng(0))
    Config(client={'lr': 0.5})
    """

    file: str | None = None
    ask: Callable[[Space, Sequence[Observation]], Any] | None = None
    share: float = 0.3
    sampler: str | Sampler = "bohb"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.share <= 1:
            raise InputError(f"share must lie in [0, 1], not {self.share!r}")
        if self.file is not None and self.ask is not None:
            raise InputError("file and ask: give one of them")
        if isinstance(self.sampler, str) and self.sampler not in SAMPLERS:
            raise unknown_name("sampler", self.sampler, SAMPLERS)

    @property
    def inner(self) -> Sampler:
        """Who suggests the rest."""
        if not isinstance(self.sampler, str):
            return self.sampler
        made: Sampler = SAMPLERS[self.sampler]()
        return made

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The next proposal that was not tried yet, if the share allows one; else what the sampler says."""
        tried = {*asked, *(seen.config for seen in observations)}
        given = self._given(space, observations, tried)
        if given is not None and given not in set(asked) and (pool is None or given in pool):
            return given
        return self.inner.suggest(space, observations, asked, rng, pool)

    def _given(self, space: Space, seen: Sequence[Observation], tried: set[Config]) -> Config | None:
        """What comes from outside now, if anything may."""
        if self.ask is not None:
            # Who is asked is asked in every so many trials: what became of earlier answers cannot be told.
            turns = [int(self.share * (count + 1) + 1e-9) for count in (len(tried) - 1, len(tried))]
            return complete(space, self.ask(space, seen)) if turns[1] > turns[0] else None
        if self.file is None:
            return None
        proposed = list(dict.fromkeys(read_proposals(Path(self.file), space)))
        taken = sum(config in tried for config in proposed)
        share = self.share * trust(seen, set(proposed))
        if taken + 1 > share * (len(tried) + 1) + 1e-9:
            return None
        return next((config for config in proposed if config not in tried), None)

    def limit(self, space: Space) -> int | None:
        """That of the sampler; None where proposals may add to it."""
        return limit_of(self.inner, space) if self.file is None and self.ask is None else None

    def recommend(
        self,
        space: Space,
        observations: Sequence[Observation],
        candidates: Sequence[int],
        rng: np.random.Generator,
    ) -> int | None:
        """What the sampler recommends, if it does."""
        inner = self.inner
        if not isinstance(inner, Recommender):
            return None
        return inner.recommend(space, observations, candidates, rng)


def trust(seen: Sequence[Observation], proposed: set[Config]) -> float:
    """What proposals have earned of their share: 1 down to 0, by how they stand in their first scores.

    1 where they stand in the better half on average, or fewer than `LEAST` are scored; 0 where each is worse
    than all other trials.

    >>> from fedhpo.testing.sampler import observed
    >>> bad, good = Config(client={"lr": 1.0}), Config(client={"lr": 2.0})
    >>> trust([observed(0, bad, 0.9), observed(1, good, 0.1)], {bad})
    1.0
    """
    first: dict[int, Observation] = {}
    for one in seen:
        if one.trial not in first or one.score.round < first[one.trial].score.round:
            first[one.trial] = one
    if not first:
        return 1.0
    rung = min(one.score.round for one in first.values())
    trials = [one for one in first.values() if one.score.round == rung]
    ours = [one.score.rank_value for one in trials if one.config in proposed]
    others = np.array([one.score.rank_value for one in trials if one.config not in proposed])
    if len(ours) < LEAST or len(others) < LEAST:
        return 1.0
    worse = np.mean([np.mean(others < one) + 0.5 * np.mean(others == one) for one in ours])
    return float(min(1.0, 2 * (1 - worse)))


def complete(space: Space, given: Any) -> Config | None:
    """A proposal as a config of the space; None for None. An `InputError` says what is wrong with it."""
    if given is None:
        return None
    config = given if isinstance(given, Config) else space.complete(given)
    space.validate(config)
    return config


def read_proposals(path: Path, space: Space) -> Iterator[Config]:
    """The configs in a file, in order; a file that is not there has none."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        content = file.read(MOST_BYTES)
    *lines, rest = content.split(b"\n")  # the last one may still be being written
    whole = [*lines, rest] if len(content) < MOST_BYTES else lines
    for number, line in enumerate(whole[:MOST_LINES], 1):
        if not line.strip():
            continue
        try:
            found = complete(space, json.loads(line))
        except (ValueError, TypeError, RecursionError, AttributeError) as error:
            warnings.warn(f"{path}, line {number}: is no config and is passed over: {error}", stacklevel=2)
            continue
        if found is not None:
            yield found

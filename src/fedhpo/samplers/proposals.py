"""Outside proposals: a person's, an agent's or a file's configs take a share of the trials.

The rest stays with a sampler of ours, which learns from all trials alike. A proposal is an outside choice:
the search records it as it records what samplers suggest (`Session.decide`), so that a run that is resumed
has the same trials without asking anybody again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.claims import GIVEN, setting
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
#: The part of their share that proposals have before a full training has shown what they are worth.
START = 1 / 6


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
        The share of trials, counted from the first, that proposals have at most. The first one
        comes as soon as that allows, then they have a sixth of it; those of a file earn the rest by full
        trainings: see `trust`. With 1 all trials are theirs,
        from the first.
    sampler
        Who suggests the rest: "random", "tpe", "gp", "bohb", or in Python a sampler with its settings.

    Examples
    --------
    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0)})
    >>> mine = Proposals(ask=lambda space, seen: {"client": {"lr": 0.5}}, share=1.0)
    >>> mine.suggest(space, [], [], np.random.default_rng(0))
    Config(client={'lr': 0.5})
    """

    file: str | None = None
    ask: Callable[[Space, Sequence[Observation]], Any] | None = None
    share: float = setting(0.3, {"file": GIVEN}, {"ask": GIVEN})
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
        given = self._given(space, observations, tried, pool)
        if given is not None and given not in set(asked):
            return given
        return self.inner.suggest(space, observations, asked, rng, pool)

    def _given(
        self,
        space: Space,
        seen: Sequence[Observation],
        tried: set[Config],
        pool: Sequence[Config] | None,
    ) -> Config | None:
        """What comes from outside now, if anything may."""
        if self.ask is not None:
            # What became of earlier answers cannot be told, so that those who are asked earn nothing.
            if self._allowed(len(tried) + 1, START) <= self._allowed(len(tried), START):
                return None
            answer = complete(space, self.ask(space, seen))
            return next(_in_pool([] if answer is None else [answer], pool), None)
        if self.file is None:
            return None
        proposed = list(dict.fromkeys(_in_pool(read_proposals(Path(self.file), space), pool)))
        taken = sum(config in tried for config in proposed)
        if taken >= self._allowed(len(tried) + 1, trust(seen, set(proposed))):
            return None
        return next((config for config in proposed if config not in tried), None)

    def _allowed(self, trials: int, trusted: float) -> int:
        """How many of so many trials may be proposals: the first soon, further ones as they are trusted."""
        most = int(self.share * trials + 1e-9)
        return most if self.share == 1 else min(most, max(1, int(trusted * self.share * trials + 1e-9)))

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
    """What proposals have earned of their share: `START` at first, towards 1 as they win, 0 as they lose.

    A proposal wins if its score after a full training is better than the median of the other trials that were
    trained as long. Earlier scores earn nothing: a config may be good after a few rounds and bad at the end,
    and who proposes may know that.

    >>> from fedhpo.testing.sampler import observed
    >>> bad, good = Config(client={"lr": 1.0}), Config(client={"lr": 2.0})
    >>> early = [observed(0, bad, 0.9), observed(1, good, 0.1)]
    >>> trust(early, {good}) == START
    True
    >>> final = [Observation(one.trial, one.config, one.score, final=True) for one in early]
    >>> round(trust(final, {good}), 3), round(trust(final, {bad}), 3)
    (0.444, 0.111)
    """
    last = {one.trial: one for one in seen if one.final}.values()
    others = [one.score.rank_value for one in last if one.config not in proposed]
    if not others:
        return START
    middle = float(np.median(others))
    ours = [one.score.rank_value for one in last if one.config in proposed]
    won = sum(1 if one < middle else -1 if one > middle else 0 for one in ours) / (len(ours) + 2)
    return START + won * (1 - START if won > 0 else START)


def complete(space: Space, given: Any) -> Config | None:
    """A proposal as a config of the space; None for None. An `InputError` says what is wrong with it."""
    if given is None:
        return None
    config = given if isinstance(given, Config) else space.complete(given)
    space.validate(config)
    return config


def _in_pool(configs: Iterable[Config], pool: Sequence[Config] | None) -> Iterator[Config]:
    """Those that a table holds, if it is one that is tuned on; the others are passed over, with a warning."""
    for config in configs:
        if pool is None or config in pool:
            yield config
        else:
            words = "is not one of the table's configs and is passed over"
            warnings.warn(f"the proposal {config.to_dict()} {words}", stacklevel=2)


def read_proposals(path: Path, space: Space) -> Iterator[Config]:
    """The configs in a file, in order; a file that is not there has none, with a warning."""
    if not path.is_file():
        warnings.warn(f"{path} is not there: nothing is proposed until it is", stacklevel=2)
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

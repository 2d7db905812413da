"""A federation that does no round twice: methods that are compared with common random numbers share much.

Halving and what is built on it train the same first configs, from the same first models, at the same clients.
What a round makes of a trial follows from the trial's past and from the work, so that it can be kept and
served to the next method. Results are the same bits as without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from fedhpo.core.digests import digest
from fedhpo.protocol.federation import (
    BEFORE,
    Federation,
    Ints,
    RoundReport,
    Scores,
    SplitName,
    TrialState,
    Work,
)
from fedhpo.protocol.through import Through


@dataclass(frozen=True)
class _Past:
    """What a trial came from: its model, and its random stream, which a copy does not share."""

    model: str
    stream: str


def _key(*parts: Any) -> str:
    return digest(repr(parts).encode()).hex()


class Remembering(Through):
    """`inner`, a simulation, with a memory of rounds and scores; `forget` empties it.

    Scores before training are not taken where no others are: they are for a learning curve, which nobody
    looks at in a comparison.
    """

    def __init__(self, inner: Federation) -> None:
        super().__init__(inner)
        self._past: dict[int, _Past] = {}
        self._rounds: dict[str, tuple[RoundReport, TrialState]] = {}
        self._scores: dict[str, Scores] = {}
        self._restored = 0

    def forget(self) -> None:
        """Forget all rounds and scores."""
        self._rounds.clear()
        self._scores.clear()

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model."""
        self.inner.start(trial, model, seed)
        self._past[trial] = _Past(_key("start", sorted(model.items()), seed), _key(trial, seed))

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""
        self.inner.fork(source, target)
        self._past[target] = replace(self._past[target], model=self._past[source].model)

    def mix(self, source: int, target: int, share: float) -> None:
        """Move `target` towards `source`."""
        self.inner.mix(source, target, share)
        mixed = _key("mix", self._past[source].model, self._past[target].model, share)
        self._past[target] = replace(self._past[target], model=mixed)

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials: those that are not known are trained."""
        asked = [replace(one, scores=()) if tuple(one.scores) == (BEFORE,) else one for one in work]
        keys = [_key(astuple(self._past[one.trial]), _told(one)) for one in asked]
        new = [(key, one) for key, one in zip(keys, asked, strict=True) if key not in self._rounds]
        reports = self.inner.round([one for _, one in new])
        for (key, one), report in zip(new, reports, strict=True):
            self._rounds[key] = report, self.inner.state(one.trial)
        trained = {one.trial for _, one in new}
        for key, one in zip(keys, asked, strict=True):
            if one.trial not in trained:
                self.inner.restore(one.trial, self._rounds[key][1])
            self._past[one.trial] = _Past(_key("round", key), _key(self._past[one.trial].stream, _told(one)))
        return [self._rounds[key][0] for key in keys]

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores of each trial: those that are not known are taken."""
        asked = np.asarray(clients).tolist()
        keys = [_key(self._past[trial].model, asked, split) for trial in trials]
        new = {key: trial for key, trial in zip(keys, trials, strict=True) if key not in self._scores}
        if new:
            found = self.inner.evaluate(list(new.values()), clients, split)
            self._scores.update(zip(new, found, strict=True))
        return [replace(self._scores[key], trial=trial) for key, trial in zip(keys, trials, strict=True)]

    # Rounds at their own pace, and work that is no round, are not remembered

    def submit(self, work: Work) -> None:
        """Begin a round."""
        self.inner.submit(work)
        past = self._past[work.trial]
        self._past[work.trial] = _Past(_key("alone", astuple(past), _told(work)), _key(past.stream, "alone"))

    def restore(self, trial: int, state: TrialState) -> None:
        """Bring a trial back: of its past nothing is known."""
        self.inner.restore(trial, state)
        self._restored += 1
        self._past[trial] = _Past(_key("restored", self._restored), _key(trial, self._restored))


def _told(work: Work) -> str:
    """All that a round depends on besides the trial's past."""
    return repr(work)

"""Means of the models that a trial had after its last rounds.

A round's cohort pulls the model its own way, the more so the more clients differ and the larger steps are;
the mean over some rounds is nearer to what all clients want (Polyak and Juditsky, 1992; in federations Lin et
al., 2018, and Caldarola et al., 2022). It costs no round: the server keeps one more model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


def founder(trials: Sequence[Trial], number: int, step: int | None = None) -> int:
    """The trial that a trial's model began as, before it was copied; `step` counts its replacements."""
    made = trials[number].replacements
    step = len(made) if step is None else step
    return number if not step else founder(trials, made[step - 1].source, made[step - 1].source_step)


class Means:
    """Over the last `tail` (a share) of `rounds`: each trial's mean model, as a trial that does not train."""

    def __init__(self, rounds: int, tail: float) -> None:
        #: The round after which the mean begins.
        self.begin = rounds - (max(1, round(tail * rounds)) if tail else 0)
        self._means: dict[int, Trial] = {}
        self._counts: dict[int, int] = {}

    def candidates(self, search: Search) -> list[Trial]:
        """The mean of each trial, and of each lineage with several trials the mean of their means.

        Copies of one trial that train at other clients are near each other: together they have seen as many
        clients as a larger cohort would have.
        """
        families: dict[int, list[Trial]] = {}
        for number, mean in self._means.items():
            families.setdefault(founder(search.trials, number), []).append(mean)
        joint = []
        for first, *others in families.values():
            if others:
                joint.append(search.snapshot(first))
                for place, other in enumerate(others, start=2):
                    search.mix(other, joint[-1], 1 / place)
        return [*self._means.values(), *joint]

    def train(self, search: Search, rung: Sequence[Trial], until: int) -> None:
        """Train these trials until each has `until` rounds; their means follow round by round."""
        search.train(rung, min(until, self.begin))
        for end in range(self.begin + 1, until + 1):
            if any(trial.training and trial.round < end for trial in rung):
                search.train(rung, end)
                self._follow(search, [trial for trial in rung if trial.training and trial.round == end])

    def _follow(self, search: Search, trials: Sequence[Trial]) -> None:
        for trial in trials:
            count = self._counts[trial.number] = self._counts.get(trial.number, 0) + 1
            if count == 1:
                self._means[trial.number] = search.snapshot(trial)
            else:
                search.mix(trial, self._means[trial.number], 1 / count)

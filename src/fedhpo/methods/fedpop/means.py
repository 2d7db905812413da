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
    """Of each trial the mean of its models over one window of rounds, as a trial that does not train."""

    def __init__(self) -> None:
        self._means: dict[Trial, Trial] = {}
        self._counts: dict[Trial, int] = {}

    @property
    def trials(self) -> list[Trial]:
        """The means over the last window."""
        return [self._means[trial] for trial in self._counts]

    def trial_of(self, mean: Trial) -> Trial:
        """Whose mean this is."""
        return next(trial for trial, one in self._means.items() if one is mean)

    def train(self, search: Search, rung: Sequence[Trial], until: int) -> None:
        """Train these trials for a window, until each has `until` rounds; their means follow."""
        self._counts.clear()
        begin = min((trial.round for trial in rung if trial.training), default=until)
        for end in range(begin + 1, until + 1):
            search.train(rung, end)
            for trial in rung:
                if trial.training and trial.round == end:
                    self._follow(search, trial)

    def _follow(self, search: Search, trial: Trial) -> None:
        count = self._counts[trial] = self._counts.get(trial, 0) + 1
        if count == 1:
            self._means[trial] = search.snapshot(trial, self._means.get(trial))
        else:
            search.mix(trial, self._means[trial], 1 / count)

    def candidates(self, search: Search) -> list[Trial]:
        """The mean of each trial, and of each lineage with several trials the mean of their means.

        Copies of one trial that train at other clients are near each other: together they have seen as many
        clients as a larger cohort would have.
        """
        families: dict[int, list[Trial]] = {}
        for mean in self.trials:
            families.setdefault(founder(search.trials, mean.number), []).append(mean)
        joint = []
        for first, *others in families.values():
            if others:
                joint.append(search.snapshot(first))
                for place, other in enumerate(others, start=2):
                    search.mix(other, joint[-1], 1 / place)
        return [*self.trials, *joint]

"""The config of lowest predicted loss (Eq. 2.7): candidates from all over the space, then refinement."""

from __future__ import annotations

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.methods.flora.surfaces.surface import Surface
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import sobol
from fedhpo.surrogates.refine import refined

#: Quasi-random candidates; then so many of the best are refined, each by these many moves of each width.
_CANDIDATES, _REFINED, _MOVES = 2048, 16, 24
_WIDTHS = (0.3, 0.1, 0.1, 0.03, 0.03, 0.01, 0.01, 0.003)


def minimise(surface: Surface, space: Space, seed: int) -> tuple[Config, float]:
    """A config of the space with the lowest predicted loss, and that loss.

    What the parties tried competes with quasi-random candidates and, where predictions are equal (a
    forest's are constant over cells), wins. The same seed gives the same config.
    """
    if space != surface.space:
        raise InputError("space is not the one that the surface was fitted on")
    rng = stream(seed, "minimise")
    wide = sobol(space.dimensions, _CANDIDATES, rng)
    points = np.vstack([surface.cube.points(surface.tried), surface.cube.snap(wide)])
    losses = surface.at(points)
    order = np.argsort(losses, kind="stable")[:_REFINED]
    centres, worths = refined(
        surface.cube, points[order], -losses[order], lambda moved: -surface.at(moved), _WIDTHS, _MOVES, rng
    )
    config = space.from_unit(centres[int(np.argmax(worths))])
    return config, float(surface.predict([config])[0])

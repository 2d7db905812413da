"""The fixed list of configs that every party of a local search tries, where none is to follow from losses."""

from __future__ import annotations

from fedhpo.core.streams import stream
from fedhpo.samplers import Random
from fedhpo.samplers.untried import finite_size
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube, sobol


def public_list(space: Space, configs: int, seed: int, try_default: bool = True) -> tuple[Config, ...]:
    """So many quasi-random configs, or all of a space that has no more; the default config first.

    They follow from what the server asks alone, so that nothing of a party is in them.

    >>> from fedhpo.space import Choice, Float
    >>> len(public_list(Space(client={"lr": Float(0, 1)}), 5, seed=0))
    5
    >>> small = Space(client={"momentum": Choice([0.0, 0.9])})
    >>> [config.client["momentum"] for config in public_list(small, 5, seed=0)]
    [0.0, 0.9]
    """
    size, rng = finite_size(space), stream(seed, "public list")
    if size is not None and size <= configs:
        return tuple(space.grid(1))
    cube = Cube(space)
    found = dict.fromkeys([space.default()] if try_default else [])
    for point in cube.snap(sobol(len(cube.axes), 1 << (2 * configs).bit_length(), rng)):
        if len(found) == configs:
            break
        found[space.from_unit(point)] = None
    while len(found) < configs:  # many points fell on the same config
        config = Random().suggest(space, (), list(found), rng)
        assert config is not None, "the space has more configs than the list"
        found[config] = None
    return tuple(found)

"""What is left to try."""

import numpy as np

from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Float, Int, Space
from fedhpo.testing.sampler import MIXED, PLANE, SMALL

RNG = np.random.default_rng


def test_a_small_space_is_listed() -> None:
    everything = list(SMALL.grid(1))
    assert sorted(map(str, untried(SMALL, [], RNG(0)))) == sorted(map(str, everything))
    assert untried(SMALL, everything[1:], RNG(0)) == everything[:1]
    assert untried(SMALL, everything, RNG(0)) == []


def test_a_pool_is_the_whole_world_and_its_order_does_not_matter() -> None:
    pool = [PLANE.sample(RNG(n)) for n in range(20)]
    found = untried(PLANE, pool[:5], RNG(0), [*pool, *pool])
    assert set(found) == set(pool[5:])
    assert len(found) == 15
    assert found != pool[5:]


def test_a_large_space_is_drawn_from() -> None:
    space = Space(client={"a": Int(1, 1000), "b": Int(1, 1000)})
    tried = [space.sample(RNG(n)) for n in range(50)]
    found = untried(space, tried, RNG(0))
    assert len(found) == len(set(found)) > 400
    assert not set(found) & set(tried)


def test_sizes() -> None:
    assert finite_size(MIXED) is None
    never = Float(0, 1, when={"client.kind": "b"})
    assert finite_size(Space(client={"x": never, "kind": "a", "epochs": Int(1, 2)})) == 2

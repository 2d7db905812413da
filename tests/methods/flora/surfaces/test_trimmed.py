"""APLM without the parties at either end: by hand, and against one that lies."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.flora.surfaces import PartyPairs, fit_surface, minimise

SPACE = fh.Space(model={"x": fh.Float(0, 1)})
CONFIGS = tuple(SPACE.grid(21))


def party(number, losses, size=100):
    return PartyPairs(number, size, CONFIGS, tuple(losses))


def valley(best, level=0.0):
    return [level + abs(config.model["x"] - best) for config in CONFIGS]


def test_the_trimmed_mean_by_hand():
    """Four parties a quarter of whom is left out at either end, of whom all are flat but for a level."""
    flat = [party(number, [level] * 21) for number, level in enumerate((1.0, 2.0, 4.0, 90.0))]
    surface = fit_surface("aplm", SPACE, flat, seed=0, trim=0.25)
    # Each lies 0 from its own median, and the middle two levels have the mean 3.
    assert surface.predict(CONFIGS[:2]) == pytest.approx([3.0, 3.0])
    assert surface.name == "aplm (trimmed)"


@pytest.mark.parametrize("lie", [[1e30] * 21, [-1e30] * 21, [1 - loss for loss in valley(0.5)], valley(0.0)])
def test_one_of_eight_that_lies_moves_the_minimum_little(lie):
    honest = [party(number, valley(0.45 + 0.01 * number, level=0.1 * number)) for number in range(7)]
    surface = fit_surface("aplm", SPACE, [*honest, party(7, lie, size=1 << 40)], seed=0, trim=0.125)
    assert minimise(surface, SPACE, seed=0)[0].model["x"] == pytest.approx(0.5, abs=0.06)


def test_a_liar_with_a_large_number_loses_everything_in_a_mean():
    """What the trimming is for: beside 1e30 no difference of the honest parties is left in a float."""
    honest = [party(number, valley(0.5)) for number in range(7)]
    surface = fit_surface("aplm", SPACE, [*honest, party(7, [1e30] * 21)], seed=0)
    assert len(np.unique(surface.predict(CONFIGS))) == 1


def test_sizes_count_up_to_two_medians():
    sizes = [100, 100, 100, 100, 1 << 40]
    levels = [party(n, valley(0.2 if n < 4 else 0.8), size) for n, size in enumerate(sizes)]
    surface = fit_surface("aplm", SPACE, levels, seed=0, trim=0.2, weighting="size")
    assert surface.weights.tolist() == pytest.approx([1 / 6] * 4 + [2 / 6])

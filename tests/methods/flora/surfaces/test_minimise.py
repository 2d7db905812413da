"""The minimum of a surface: found, inside the box, and the same again."""

import numpy as np
import pytest
from hand_made import LINE, MIXED, mixed_party, opposed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.methods.flora.surfaces import SURFACES, Surface, fit_surface, minimise
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Floats


class Known(Surface):
    """A surface whose minimum is known: the distance to a point of the cube."""

    name = "known"

    def __init__(self, space: Space, target: Config) -> None:
        super().__init__(space, [PartyPairs(0, 1, (space.default(),), (0.0,))])
        self.target = self.cube.points([target])[0]

    def at(self, points: Floats) -> Floats:
        distances: Floats = np.abs(points - self.target).sum(axis=1)
        return distances


def test_a_known_minimum_of_a_mixed_space_is_found() -> None:
    space = Space(
        client={"lr": Float(1e-5, 1, log=True), "epochs": Int(1, 50), "batch": Ordinal([8, 16, 32])},
        model={"kind": Choice(["a", "b", "c"]), "width": Float(0, 9, when={"model.kind": "c"})},
    )
    target = Config(client={"lr": 0.0123, "epochs": 37, "batch": 8}, model={"kind": "c", "width": 2.5})
    config, loss = minimise(Known(space, target), space, seed=1)
    assert (config.client["epochs"], config.client["batch"], config.model["kind"]) == (37, 8, "c")
    assert config.client["lr"] == pytest.approx(0.0123, rel=0.2)
    assert config.model["width"] == pytest.approx(2.5, abs=0.2)
    assert loss < 0.03


def test_a_minimum_in_a_corner_stays_in_the_box() -> None:
    config, _ = minimise(Known(LINE, Config(client={"x": 1.0})), LINE, seed=0)
    assert 0.999 < config.client["x"] <= 1.0


def test_the_predicted_loss_is_that_of_the_config() -> None:
    surface = fit_surface("mplm", LINE, opposed(), seed=0)
    config, loss = minimise(surface, LINE, seed=4)
    assert loss == surface.predict([config])[0]
    assert loss <= surface.predict(surface.tried).min()


def test_what_was_tried_wins_a_tie() -> None:
    flat = PartyPairs(0, 5, tuple(Config(client={"x": x}) for x in (0.25, 0.75)), (0.5, 0.5))
    config, _ = minimise(fit_surface("aplm", LINE, [flat], seed=0), LINE, seed=0)
    assert config.client["x"] == 0.25


def test_another_space_is_refused() -> None:
    with pytest.raises(InputError, match="not the one that the surface was fitted on"):
        minimise(fit_surface("aplm", LINE, opposed(), seed=0), MIXED, seed=0)


@pytest.mark.usefixtures("few_trees")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(SURFACES),
    seed=st.integers(0, 2**31),
    parties=st.integers(1, 3),
    pairs=st.integers(1, 12),
)
def test_the_recommendation_is_a_config_of_the_space(name: str, seed: int, parties: int, pairs: int) -> None:
    """Inside the box, with exactly what is active, whatever the parties sent; and the same again."""
    sent = [mixed_party(i, seed + i, pairs) for i in range(parties)]
    surface = fit_surface(name, MIXED, sent, seed=seed)
    config, loss = minimise(surface, MIXED, seed)
    MIXED.validate(config)
    assert np.isfinite(loss)
    assert minimise(surface, MIXED, seed) == (config, loss)

"""Which pairs a party sends under T'."""

import pytest

from fedhpo.queries.pairs import PartyPairs
from fedhpo.space.config import Config


def pairs(*losses):
    return PartyPairs(0, 50, tuple(Config(model={"x": loss}) for loss in losses), losses)


@pytest.mark.parametrize(
    ("count", "losses"),
    [
        (1, (0.0,)),
        (2, (0.0, 0.9)),
        (3, (0.0, 0.1, 0.9)),
        (4, (0.0, 0.1, 0.2, 0.9)),
        (6, (0.0, 0.1, 0.2, 0.3, 0.6, 0.9)),
        (10, tuple(i / 10 for i in range(10))),
        (99, tuple(i / 10 for i in range(10))),
    ],
)
def test_half_are_the_best_and_half_are_spread_up_to_the_worst(count, losses):
    sent = pairs(0.5, 0.0, 0.9, 0.3, 0.1, 0.7, 0.2, 0.8, 0.4, 0.6).spread(count)
    assert sent.losses == losses
    assert [config.model["x"] for config in sent.configs] == list(losses)  # each with its own config

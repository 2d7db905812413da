"""What a party sends."""

import json

import pytest

from fedhpo.core.errors import InputError
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space.config import Config


def pairs(*losses: float) -> PartyPairs:
    configs = tuple(Config(client={"C": float(i)}) for i in range(len(losses)))
    return PartyPairs(2, 40, configs, losses)


def tried(found: PartyPairs) -> list[float]:
    return [config.client["C"] for config in found.configs]


def test_the_best_come_first_and_ties_in_the_order_of_the_search() -> None:
    found = pairs(0.5, 0.2, 0.4, 0.2, 0.1).best(3)
    assert (tried(found), found.losses) == ([4.0, 1.0, 3.0], (0.1, 0.2, 0.2))
    assert (found.party, found.size) == (2, 40)


def test_the_first_are_the_search_stopped_early() -> None:
    assert tried(pairs(0.5, 0.2, 0.4).first(2)) == [0.0, 1.0]
    assert pairs(0.5, 0.2).best(9) == pairs(0.5, 0.2).best(2)


def test_what_is_sent_is_the_pairs_and_the_size() -> None:
    sent = json.loads(json.dumps(pairs(0.5, 0.25).to_dict()))
    assert sent == {
        "size": 40,
        "configs": [{"client": {"C": 0.0}}, {"client": {"C": 1.0}}],
        "losses": [0.5, 0.25],
    }
    assert PartyPairs.from_dict(2, sent) == pairs(0.5, 0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, (Config(),), (0.5,)), "size of party 0 must be at least 1, found 0"),
        ((0, 5, (Config(),), ()), "found 1 configs and 0 losses"),
        ((0, 5, (), ()), "at least one pair"),
        ((7, 5, (Config(),), (float("nan"),)), "losses of party 7 must be finite, found nan"),
    ],
)
def test_what_is_no_answer_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PartyPairs(*arguments)


def test_a_number_of_pairs_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="n must be at least 1, found 0"):
        pairs(0.5).best(0)
    with pytest.raises(InputError, match="n must be at least 1, found -1"):
        pairs(0.5).first(-1)

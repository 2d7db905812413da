"""Ask and tell: the same configs as a loop by hand, whatever the pauses; what is pending; mistakes."""

import json
import math

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation
from fedhpo.samplers import GP, TPE, Asker, Grid, Random
from fedhpo.space import Choice, Float, Space

SPACE = Space(client={"lr": Float(1e-3, 1.0, log=True), "momentum": Float(0.0, 0.9)})
THREE = Space(client={"kind": Choice(["a", "b", "c"])})


def loss(config):
    return (config.client["lr"] - 0.1) ** 2 + config.client["momentum"]


@pytest.mark.parametrize("sampler", [TPE(), GP(), Random()], ids=lambda s: type(s).__name__)
def test_configs_are_those_of_a_loop_by_hand(sampler):
    asker = Asker(SPACE, sampler, seed=3)
    seen, asked = [], []
    for number in range(14):
        by_hand = sampler.suggest(SPACE, seen, asked, stream(3, "ask", number), None)
        assert asker.ask() == by_hand
        asker.tell(number, loss(by_hand))
        asked.append(by_hand)
        seen.append(Observation(number, by_hand, Score(loss(by_hand), 0.0, 1, 1, loss(by_hand))))
    assert list(asker.observations) == seen


def test_what_goes_on_from_its_state_asks_the_same():
    whole, first = Asker(SPACE, seed=1), Asker(SPACE, seed=1)
    for number in range(15):
        for asker in (whole, first) if number < 8 else (whole,):
            config = asker.ask()
            if number != 4:  # one stays pending, one fails
                asker.tell(config, math.nan if number == 6 else loss(config), standard_error=0.1, rounds=2)
    rest = Asker(SPACE, seed=1).restore(json.loads(json.dumps(first.to_dict())))
    assert rest.pending == first.pending == [first.asked[4]]
    for _ in range(8, 15):
        config = rest.ask()
        rest.tell(config, loss(config), standard_error=0.1, rounds=2)
    assert rest.asked == whole.asked
    assert json.dumps(rest.to_dict()) == json.dumps(whole.to_dict())


def test_enqueued_come_first_then_preferred_then_suggested_none_of_the_last_twice():
    a, b, c = (THREE.complete({"client": {"kind": kind}}) for kind in "abc")
    asker = Asker(THREE, Grid(), enqueue=[b])
    assert [asker.ask(prefer=[b, c]), asker.ask(prefer=[b, c]), asker.ask(), asker.ask()] == [b, c, a, None]


def test_a_pool_and_a_limit_bound_what_is_asked():
    a, b, _ = pool = [THREE.complete({"client": {"kind": kind}}) for kind in "abc"]
    pooled = Asker(THREE, Random(), pool=pool[:2])
    assert {pooled.ask(), pooled.ask()} == {a, b}
    assert pooled.ask(prefer=[pool[2]]) is None
    limited = Asker(SPACE, Random(), limit=2)
    assert [limited.ask() is None for _ in range(4)] == [False, False, True, True]


def test_the_best_is_the_largest_where_more_is_better_and_never_what_failed():
    asker = Asker(SPACE, Random(), maximise=True)
    assert asker.best is None
    first, second, third = asker.ask(), asker.ask(), asker.ask()
    for config, score in ((first, math.nan), (second, 0.4), (third, 0.9)):
        asker.tell(config, score)
    assert asker.best == (third, 0.9)
    assert [seen.score.rank_value for seen in asker.observations] == [math.inf, -0.4, -0.9]
    asker.tell(second, 0.95, rounds=4)  # told again, after more rounds
    assert asker.best == (second, 0.95)


def test_equal_configs_are_told_one_after_the_other():
    config = SPACE.default()
    asker = Asker(SPACE, enqueue=[config, config])
    asker.ask(), asker.ask()
    asker.tell(config, 1.0)
    asker.tell(config, 2.0)
    assert [seen.trial for seen in asker.observations] == [0, 1]


def test_numpy_numbers_are_scores():
    asker = Asker(SPACE)
    asker.tell(asker.ask(), np.float32(0.5), standard_error=np.float64(0.25), rounds=np.int64(3))
    assert asker.to_dict()["told"] == [{"number": 0, "score": 0.5, "standard_error": 0.25, "rounds": 3}]


def test_mistakes_are_named():
    asker = Asker(SPACE, seed=1)
    config = asker.ask()
    with pytest.raises(InputError, match="was not asked for"):
        asker.tell(SPACE.default(), 1.0)
    with pytest.raises(InputError, match="no config has the number 1: 1 were asked for"):
        asker.tell(1, 1.0)
    with pytest.raises(InputError, match="standard_error must be a number of at least 0, not -1"):
        asker.tell(config, 1.0, standard_error=-1)
    with pytest.raises(InputError, match="rounds must be a whole number"):
        asker.tell(config, 1.0, rounds=0.5)
    with pytest.raises(InputError, match=r"sampler must be a sampler, such as fedhpo.samplers.TPE\(\)"):
        Asker(SPACE, TPE)
    with pytest.raises(InputError, match=r"space must be a fedhpo\.Space"):
        Asker({"lr": 1})
    with pytest.raises(InputError, match="seed is not that of the state: 2, there 1"):
        Asker(SPACE, seed=2).restore(asker.to_dict())
    with pytest.raises(InputError, match="not asked yet"):
        asker.restore(asker.to_dict())
    with pytest.raises(InputError, match="limit must be a whole number of at least 1, not 0"):
        Asker(SPACE, limit=0)

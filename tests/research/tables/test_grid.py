"""Which configs a table holds, and when they are scored."""

import pytest

from fedhpo.core.errors import InputError
from fedhpo.research.tables import score_rounds, table_configs
from fedhpo.schedules import Hyperband
from fedhpo.space import Choice, Float, Space

SPACE = Space(client={"lr": Float(1e-6, 1.0, log=True), "momentum": Float(0.0, 0.9)})


def test_the_paper_s_rounds():
    assert score_rounds(405) == [5, *range(15, 406, 15)]


@pytest.mark.parametrize("rounds", [1, 2, 9, 50, 81, 100, 135, 405])
def test_every_rung_of_hyperband_is_scored(rounds):
    ends = {end for bracket in Hyperband().brackets(rounds) for end in bracket.ends}
    found = score_rounds(rounds)
    assert ends <= set(found)
    assert found == sorted(set(found))
    assert found[-1] == rounds
    assert len(found) <= 40


def test_a_unit_of_ones_own():
    assert score_rounds(12, unit=2) == [4, 8, 12]  # rungs end at 12/3 and 12
    assert score_rounds(12, unit=1) == [1, 4, 8, 12]


def test_tables_of_one_space_hold_the_same_configs():
    again = Space(client={"lr": Float(1e-6, 1.0, log=True), "momentum": Float(0.0, 0.9)})
    assert table_configs(SPACE, 5) == table_configs(again, 128)[:5]
    assert len(set(table_configs(SPACE, 128))) == 128


def test_no_more_configs_than_there_are():
    space = Space(client={"epochs": Choice([1, 2, 3])})
    assert {config.client["epochs"] for config in table_configs(space, 3)} == {1, 2, 3}
    for count in (0, 4):
        with pytest.raises(InputError, match=f"at least 1 and at most 3, the size of the space, not {count}"):
            table_configs(space, count)

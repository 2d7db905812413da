"""The delete-d jackknife over configs and clients."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedhpo import InputError
from fedhpo.research.tables.replay import replay
from fedhpo.testing.table import toy_table
from fedhpo_papers.jackknife import Jackknife, Part, pooled


def test_mean_of_effects_has_the_textbook_variance() -> None:
    # Of the mean of a_i + b_j the jackknife's expectation is exactly s_a^2 / n + s_b^2 / m.
    rng = np.random.default_rng(1)
    a, b = rng.exponential(size=40), 3 * rng.normal(size=100)
    knife = Jackknife.of(40, 100, parts=4000, seed=3)
    figures = [a[part.configs].mean() + b[part.clients].mean() for part in knife.parts]
    wanted = math.sqrt(a.var(ddof=1) / 40 + b.var(ddof=1) / 100)
    assert float(knife.errors(figures)) == pytest.approx(wanted, rel=0.04)


def test_pairs_of_config_and_client_are_counted_at_most_seven_thirds() -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(40, 100))
    table += table.mean() - table.mean(axis=1, keepdims=True) - table.mean(axis=0)
    knife = Jackknife.of(40, 100, parts=4000, seed=3)
    figures = [table[np.ix_(part.configs, part.clients)].mean() for part in knife.parts]
    # Without main effects, Var of the kept mean is s^2/nm (16/9 - 1), less what their absence correlates.
    ratio = float(knife.errors(figures)) ** 2 / (table.var() / 4000)
    assert 1 / 3 * 0.9 < ratio < 7 / 3


def test_chance_of_the_searches_is_taken_off_and_added_once() -> None:
    knife = Jackknife.of(40, 100, parts=4)
    # Between the parts 2.5, of which 1 is chance: 3 (2.5 - 1) + 0.25.
    figures = [[0.0], [math.sqrt(10)], [0.0], [math.sqrt(10)]]
    found = knife.errors(figures, within=[[1.0]] * 4, own=0.25)
    assert found == pytest.approx([math.sqrt(4.75)])
    assert knife.errors([1.0, 1.0, 1.0, 1.0], within=1.0) == 0


def test_parts_do_not_depend_on_their_number_and_hold_nothing_twice() -> None:
    few, many = Jackknife.of(128, 79, 3, seed=5), Jackknife.of(128, 79, 9, seed=5)
    for first, second in zip(few.parts, many.parts, strict=False):
        assert first.configs.tolist() == second.configs.tolist()
        assert first.clients.tolist() == second.clients.tolist()
    for part in many.parts:
        assert len(set(part.configs.tolist())) == len(part.configs) == 96
        assert len(set(part.clients.tolist())) == len(part.clients) == 59
    assert many.factor == 3.0  # the larger of 96 / 32 and 59 / 20


def test_part_of_a_table_says_what_the_table_says() -> None:
    table = toy_table(configs=12, rounds=9, clients=8, failed={3: 4})
    part = Part(np.array([1, 3, 7, 9, 11]), np.array([0, 2, 5]))
    kept = part.of(table)
    whole = table.scores(7, 9)
    assert kept.scores(2, 9).accuracy.tolist() == whole.accuracy[[0, 2, 5]].tolist()
    assert kept.trained.tolist() == [9, 4, 9, 9, 9]
    assert kept.validation_clients.tolist() == table.validation_clients[[0, 2, 5]].tolist()
    found = replay(kept, "random", total=27)
    assert found.best in kept.configs


def test_too_little_to_leave_out_is_refused() -> None:
    with pytest.raises(InputError, match="at least 3 configs, 3 clients and 2 parts, not 2, 100 and 9"):
        Jackknife.of(2, 100, 9)
    with pytest.raises(InputError, match="of 2 parts, not of 3"):
        Jackknife.of(9, 9, 2).errors([1.0, 2.0, 3.0])


def test_tables_are_fixed_effects() -> None:
    assert pooled([0.0, 0.0, 6.0]) == 2.0

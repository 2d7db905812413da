"""The objective of the tuner, and filled tables."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import IID, from_arrays
from fedhpo.methods.fedtune import Cells, CellTuner, ProxySet, Simulation, Simulator, fill_table

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}, server={"lr": fh.Float(0.5, 2.0, default=1.0)})
SIMULATE = partial(fh.simulate, "linear", workers=0)


def config(lr):
    return fh.Config(client={"lr": lr, "batch_size": 8})


@pytest.fixture(scope="module")
def proxies():
    return ProxySet.of(fh.load("digits"), 200).federation(Cells((0.2, 0.9), (40,)), clients=3)


def by_hand(proxies, group, lr, seed, rounds):
    """The same simulation through the protocol, alone."""
    from fedhpo.core.streams import derive

    with SIMULATE(proxies.data) as federation:
        federation.start(7, {}, derive(seed, "simulation", group))
        for _ in range(rounds):
            federation.round([fh.Work(7, proxies.groups[group], config(lr).client, scores=())])
        [scores] = federation.evaluate([7], [proxies.scorer, *proxies.groups[group]])
    return scores.accuracy


def test_a_simulation_is_a_short_training_of_the_group(proxies):
    with SIMULATE(proxies.data) as federation:
        simulator = Simulator(federation, proxies.groups, proxies.scorer, 3, 5, seed=4, own_scores=True)
        assert simulator.iterations == 9
        found = simulator.simulate([(0, config(0.1)), (1, config(0.1)), (0, config(0.5))])
        assert federation.trials == []
        # Asked again, in other company, a config scores the same.
        assert simulator.simulate([(0, config(0.5))]) == [found[2]]
    for one, (group, lr) in zip(found, [(0, 0.1), (1, 0.1), (0, 0.5)], strict=True):
        held_out, *own = by_hand(proxies, group, lr, 4, 3)
        assert one.held_out == held_out
        assert one.own == pytest.approx(np.mean(own))
    # Clients of few classes look better at their own classes than on all.
    assert found[1].own > found[1].held_out + 0.2


def test_what_diverges_has_no_score_and_harms_nobody(proxies):
    with SIMULATE(proxies.data) as federation:
        simulator = Simulator(federation, proxies.groups, proxies.scorer, 2, 5)
        bad, good = simulator.simulate([(0, config(1e45)), (0, config(0.1))])
        assert math.isnan(bad.held_out)
        assert [good] == simulator.simulate([(0, config(0.1))])


def test_a_large_group_takes_turns(proxies):
    everybody = [client for group in proxies.groups for client in group]
    with SIMULATE(proxies.data) as federation:
        simulator = Simulator(federation, [everybody], proxies.scorer, 6, 2)
        drawn = [simulator._work(0, 0, config(0.1), number).cohort for number in range(6)]
    assert all(len(set(cohort)) == 2 for cohort in drawn)
    assert len({client for cohort in drawn for client in cohort}) > 2


def test_a_score_carries_the_binomial_error_of_its_rows(proxies):
    with SIMULATE(proxies.data) as federation:
        simulator = Simulator(federation, proxies.groups, proxies.scorer, 3, 5, own_scores=True)
        [one] = simulator.simulate([(0, config(0.1))])
        losses = replace(simulator, objective=fh.Objective("loss"))
        [unknown] = losses.simulate([(0, config(0.1))])
    assert one.score("held-out") == (one.held_out, one.held_out_error)
    # 200 held-out rows; the rule of succession moves it by less than a hundredth.
    by_hand = math.sqrt(one.held_out * (1 - one.held_out) / 200)
    assert one.held_out_error == pytest.approx(by_hand, rel=0.01)
    assert one.own_error >= one.held_out_error
    assert math.isnan(unknown.held_out_error)


def test_a_score_may_be_the_mean_over_the_last_rounds(proxies):
    """After 2, 3 and 4 rounds; the error is that of the same rows, and does not shrink."""
    with SIMULATE(proxies.data) as federation:
        each = [
            Simulator(federation, proxies.groups, proxies.scorer, rounds, 5, seed=4).simulate(
                [(0, config(0.1))]
            )
            for rounds in (2, 3, 4)
        ]
        over = Simulator(federation, proxies.groups, proxies.scorer, 4, 5, seed=4, last=3)
        [found] = over.simulate([(0, config(0.1))])
        [all_of_them] = replace(over, last=9).simulate([(0, config(0.1))])
    assert found.held_out == pytest.approx(np.mean([one.held_out for [one] in each]))
    assert found.held_out_error == pytest.approx(np.mean([one.held_out_error for [one] in each]))
    assert all_of_them.held_out < found.held_out  # the first round counts as well: 9 is more than there are


def test_cohorts_of_a_cell_can_be_drawn_anew_each_round():
    table = fill(simulation=Simulation(4, 3, cohort=2))
    assert table.facts["cohort"] == 2
    assert table.facts["iterations"] == table.facts["steps"] * 3 * 2
    with pytest.raises(InputError, match="cohort=5; allowed: 1 to 4"):
        Simulation(4, 3, cohort=5)


def fill(**more):
    given = {"cells": Cells((0.2, 0.8), (30,)), "simulation": Simulation(2, 2), "tuner": CellTuner(steps=4)}
    return fill_table(ProxySet.of(fh.load("digits"), 200), SIMULATE, SPACE, **{**given, **more})


def test_no_cell_of_a_table_is_worse_than_the_default(tmp_path):
    table = fill(directory=tmp_path)
    assert set(table.configs[0]) == {"lr"}
    proxies = ProxySet.of(fh.load("digits"), 200).federation(Cells((0.2, 0.8), (30,)), 2)
    with SIMULATE(proxies.data) as federation:
        simulator = Simulator(federation, proxies.groups, proxies.scorer, 2, 2)
        default = simulator.simulate([(cell, SPACE.default()) for cell in range(2)])
        best = simulator.simulate([(cell, fh.Config(client=table.configs[cell])) for cell in range(2)])
    assert [one.held_out for one in best] == pytest.approx(table.scores, abs=1e-6)
    assert all(b.held_out >= d.held_out for b, d in zip(best, default, strict=True))
    assert table.facts["iterations"] == table.facts["steps"] * 4
    assert table.facts["attained"] == [pytest.approx(2 / 9, abs=1e-4), pytest.approx(7 / 9, abs=1e-4)]
    assert fill(directory=tmp_path) == table  # from the journal


def test_it_may_be_scored_on_the_cell_s_own_clients():
    held_out, own = fill(), fill(simulation=Simulation(2, 2, "own"))
    assert own.facts["scored_on"] == "own"
    assert own.scores[1] > held_out.scores[1]


def test_regression_and_its_edges():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    data = from_arrays(x, x @ np.array([1.0, -2.0, 0.5], np.float32), IID(2))
    table = fill_table(
        ProxySet.of(data),
        SIMULATE,
        SPACE,
        cells=Cells((0.2, 0.8), (30,)),
        simulation=Simulation(2, 3),
        tuner=CellTuner(steps=3),
    )
    assert table.facts["metric"] == "loss"
    assert len(table.edges) == 9
    assert table.resolve(data.y[:30], None) in table.configs


def test_simulations_that_cannot_be():
    with pytest.raises(InputError, match="unknown scored_on 'test'"):
        Simulation(scored_on="test")
    with pytest.raises(InputError, match="rounds must be a whole number"):
        Simulation(rounds=0)

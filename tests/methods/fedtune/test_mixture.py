"""The search in the mixture: what it finds, what it spends, when it keeps its table, how it goes on."""

import math
from functools import partial

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.core.journal import Journal
from fedhpo.methods.fedtune import Cells, CellTuner, Profiles, Simulation
from fedhpo.methods.fedtune.mixture import Budget, Mixture
from fedhpo.methods.fedtune.shapes import Tables
from fedhpo.methods.fedtune.simulator import Simulated
from fedhpo.protocol.objective import Objective
from fedhpo.run import open_read

SPACE = fh.Space(client={"lr": fh.Float(0.002, 0.8, log=True, default=0.01), "batch_size": 8})
CELLS = Cells((0.2, 0.5, 0.8), (50, 200))
CONSTANT, RATE = (Tables(SPACE, Profiles.uniform(CELLS), shape) for shape in ("constant", "rate"))
BUDGET = Budget(steps=24, deals=2, clients=6, cohort=3, rounds=2)


class Bowl:
    """In place of simulations: best where each cell has its own rate; diverges above 0.5 in any cell."""

    objective = Objective()

    def __init__(self, best=(0.4, 0.1, 0.025), noise=0.003, edge=0.5, stop_after=None):
        self.best, self.noise, self.edge, self.asked, self.stop_after = best, noise, edge, 0, stop_after

    def simulate(self, asked):
        if self.stop_after is not None and self.asked >= self.stop_after:
            raise KeyboardInterrupt
        self.asked += len(asked)
        return [self._one(deal, rule) for deal, rule in asked]

    def _one(self, deal, table):
        rates = np.array([cell["lr"] for cell in table.configs])
        if rates.max() > self.edge:
            return Simulated(math.nan, math.nan)
        off = np.log2(rates / np.repeat(self.best, 2))
        rng = np.random.default_rng([deal, *np.round(1e6 * rates).astype(int)])
        score = 0.8 - 0.02 * float((off**2).mean()) + 0.05 * np.sin(deal) + self.noise * rng.normal()
        return Simulated(score, math.nan, 0.01)


def search(bowl, journal=None, seed=0):
    mixture = Mixture(bowl, BUDGET, journal)
    one = mixture.search(CONSTANT, seed)
    found = mixture.search(RATE, seed, one.search)
    return mixture, one, mixture.capped(found, CONSTANT)


def test_it_finds_rates_that_fall_where_they_should():
    mixture, one, found = search(Bowl())
    # The best constant is the geometric mean, 0.1, from which the cells are off by 2, 0 and 2 doublings.
    assert one.config.client["lr"] == pytest.approx(0.1, rel=0.4)
    assert found.config.policy["index_slope"] == pytest.approx(-2, abs=0.6)
    compared = mixture.compared(found, one, SPACE.default())
    assert compared["kept"]
    assert compared["over_global"][0] > 0.03
    assert compared["over_own"][0] > compared["over_global"][0]


def test_the_two_searches_have_the_same_budget_and_share_half_of_it():
    bowl = Bowl()
    mixture = Mixture(bowl, BUDGET)
    one = mixture.search(CONSTANT, 0)
    assert len(one.search.configs) == 24
    # 24 candidates on two deals, and three finalists on two more.
    assert bowl.asked == 24 * 2 + 3 * 2
    found = mixture.search(RATE, 0, one.search)
    assert len(found.search.configs) == 24
    assert bowl.asked <= 24 * 3 + 2 * 3 * 2
    first = [config.client for config in found.search.configs[:12]]
    assert first == [config.client for config in one.search.configs[:12]]
    assert all(config.policy["index_slope"] == 0 for config in found.search.configs[:12])
    # The table's search begins near the best of the shared half, and knows nothing of the other.
    best = min(mixture.half(one.search), key=lambda known: -known[1])[0]
    assert found.search.configs[12:16] == RATE.around(best)


def test_where_clients_are_alike_the_table_is_not_kept_by_luck():
    kept = 0
    for seed in range(4):
        mixture, one, found = search(Bowl(best=(0.1, 0.1, 0.1), noise=0.01), seed=seed)
        compared = mixture.compared(found, one, SPACE.default())
        kept += compared["kept"]
        assert compared["over_global"][0] < 0.02
    assert kept <= 2


def test_no_cell_is_above_what_is_stable_for_all():
    """A constant at the table's highest rate scores less than half of the table: the rate is halved."""

    class Edge(Bowl):
        def _one(self, deal, table):
            rates = [cell["lr"] for cell in table.configs]
            if min(rates) > 0.1:
                return Simulated(0.1, math.nan, 0.01)
            return super()._one(deal, table)

    mixture = Mixture(Edge(edge=1.0), BUDGET)
    steep = RATE.searched.complete({"client": {"lr": 0.4}, "policy": {"index_slope": -2.0}})
    from fedhpo.methods.fedtune.mixture import Chosen

    capped = mixture.capped(Chosen(RATE, steep, None), CONSTANT)
    assert capped.config.client["lr"] == pytest.approx(0.1)
    assert capped.config.policy == steep.policy


def test_who_is_killed_goes_on(tmp_path):
    whole_bowl = Bowl()
    *_, whole = search(whole_bowl)
    for stop_after in (10, 30):
        with pytest.raises(KeyboardInterrupt):
            search(Bowl(stop_after=stop_after), Journal(tmp_path / "m.jsonl", {}))
    rest = Bowl()
    *_, again = search(rest, Journal(tmp_path / "m.jsonl", {}))
    assert again.config == whole.config
    assert 0 < rest.asked < whole_bowl.asked - 30


SMALL = {"indices": (0.2, 0.8), "quantities": (20, 60), "clients": 8, "cohort": 3, "length": 3, "steps": 8}


def tune(run, callbacks=(), evaluation=None, **more):
    method = fh.FedTune(
        **{**SMALL, **more},
        scored_on="mixture",
        proxy=fh.load("digits", part=(0.6, 1.0)),
        simulate=partial(fh.simulate, "linear", workers=0),
    )
    space = fh.Space(client={"lr": fh.Float(0.01, 2.0, log=True), "epochs": fh.Int(1, 3), "batch_size": 8})
    data = fh.load("digits", clients=8, part=(0.0, 0.6), partition={"kind": "dirichlet", "alpha": 0.3})
    with fh.simulate("linear", data, weighting="uniform", workers=0) as federation:
        budget = {"rounds": 3, "total": 3, "cohort": 3, "seed": 1}
        return fh.tune(
            federation, space, method, run=run, callbacks=callbacks, evaluation=evaluation, **budget
        )


def test_a_run_says_what_its_table_was_made_for_and_compares(tmp_path):
    whole = tune(tmp_path / "whole", shares=(1.0, 1.0, 2.0, 0.0))
    facts = whole.facts["table"]["facts"]
    assert facts["made_for"] == {"source": "given", "shares": [0.25, 0.25, 0.5, 0.0]}
    assert set(facts["compared"]) >= {"table", "global", "own", "over_global", "over_own", "kept"}
    assert whole.facts["proxy"]["trials"] == facts["steps"]
    told = []

    def stop(event):
        told.append(event.kind)
        return told.count("table") == 2

    assert tune(tmp_path / "cut", [stop], shares=(1.0, 1.0, 2.0, 0.0)).status == "stopped"
    again = tune(tmp_path / "cut", shares=(1.0, 1.0, 2.0, 0.0))
    assert again.facts["table"] == whole.facts["table"]
    from fedhpo.methods.fedtune.section import comparison

    first, *_, last = comparison(facts)
    assert "one config for all, tuned with the same budget" in first
    assert "your own config" in first
    assert last == "Made for the shares of the cells that were given."


def test_asked_clients_tell_their_cells_with_noise_and_epsilon_is_charged(tmp_path):
    result = tune(tmp_path / "run", profiles="asked", epsilon=0.5)
    with open_read(tmp_path / "run") as run:
        assert sum(event.epsilon for event in run.record.events()) == 0.5
    assert result.facts["profiles"]["clients"] == 8
    assert sum(result.facts["profiles"]["counts"]) == 8
    assert result.facts["table"]["facts"]["made_for"]["source"] == "asked"


def test_profiles_are_not_asked_beside_private_scores(tmp_path):
    evaluation = fh.Evaluator(privacy=fh.Privacy(epsilon=2.0))
    with pytest.raises(InputError, match="'asked' spends epsilon of its own"):
        tune(tmp_path / "run", profiles="asked", evaluation=evaluation)


def test_weights_and_fednova_make_tables_too(tmp_path):
    for shape in ("weight", "fednova"):
        table = fh.fill_table(
            fh.load("digits", part=(0.6, 1.0)),
            partial(fh.simulate, "linear", workers=0),
            fh.Space(client={"lr": fh.Float(0.01, 2.0, log=True), "epochs": 1, "batch_size": 8}),
            cells=Cells((0.2, 0.8), (20, 60)),
            simulation=Simulation(8, 2, "mixture", cohort=3, deals=1),
            tuner=CellTuner(steps=6),
            shape=shape,
        )
        assert table.facts["shape"] in (shape, "constant")
        assert ("update_scale" in table.configs[0]) == (table.facts["shape"] == shape)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"shape": "weight"}, "shape = 'weight': counts only where .*scored_on = 'mixture'"),
        ({"scored_on": "mixture", "shares": (1.0,)}, "1 shares for 24 cells"),
        ({"scored_on": "mixture", "profiles": "asked", "shares": (1.0,) * 24}, "leave them out"),
        ({"scored_on": "mixture", "epsilon": 0.0}, "epsilon must be"),
        ({"scored_on": "mixture", "clients": 4, "cohort": 5}, "cohort=5"),
    ],
)
def test_mistakes(bad, message):
    with pytest.raises(InputError, match=message):
        fh.FedTune(**bad)

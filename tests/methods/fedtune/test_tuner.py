"""The tuner of the cells: when it stops, what it keeps, how it goes on, what it saves over random search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.core.journal import Journal
from fedhpo.methods.fedtune import Cells, CellTuner, tune_cells
from fedhpo.protocol.objective import Objective
from fedhpo.surrogates.cube import Cube

SPACE = fh.Space(client={"lr": fh.Float(0.001, 1.0, log=True), "epochs": fh.Ordinal([1, 2, 4])})
CELLS = Cells((0.2, 0.8), (100, 400))
BEST = (0.01, 0.02, 0.1, 0.2)


def score(cell, config):
    """Best at the cell's own learning rate and 4 epochs; diverged at very large rates."""
    if config.client["lr"] > 0.9:
        return math.nan
    distance = math.log10(config.client["lr"] / BEST[cell])
    return 0.9 - 0.2 * distance**2 - 0.03 * (2 - math.log2(config.client["epochs"]))


class Scorer:
    def __init__(self, stop_after=None):
        self.asked, self.stop_after = [], stop_after

    def __call__(self, asked):
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append([cell for cell, _ in asked])
        return [(score(cell, config), 0.0) for cell, config in asked]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 6))
def test_the_stopping_rule(ranks, patience):
    """It stops as soon as the last `patience` steps brought nothing better than what was before them."""
    stops = CellTuner(steps=100, patience=patience).stops(ranks)
    latest = max(i for i, rank in enumerate(ranks) if rank < min([*ranks[:i], math.inf]))
    assert stops == (len(ranks) - 1 - latest >= patience)
    assert not CellTuner(steps=100, patience=None).stops(ranks)
    assert CellTuner(steps=len(ranks), patience=None).stops(ranks)


def test_cells_are_tuned_side_by_side_each_by_itself():
    scorer = Scorer()
    together = tune_cells(scorer, CELLS, SPACE, CellTuner(steps=12, patience=None))
    assert scorer.asked == [[0, 1, 2, 3]] * 12
    for search in together:
        config, found = search.best(Objective())
        assert abs(math.log10(config.client["lr"] / BEST[search.cell])) < 0.35
        assert found == max(s for s in search.scores if not math.isnan(s))
    impatient = tune_cells(Scorer(), CELLS, SPACE, CellTuner(steps=12, patience=3))
    for search, whole in zip(impatient, together, strict=True):
        assert search.configs == whole.configs[: len(search.configs)]
        assert len(search.configs) == 12 or CellTuner(patience=3).stops(search.ranks(Objective()))


def test_less_may_be_better():
    [search] = tune_cells(
        lambda asked: [(config.client["lr"], 0.0) for _, config in asked],
        Cells((0.5,), (10,)),
        SPACE,
        CellTuner("random", steps=10, patience=None),
        objective=Objective("loss"),
    )
    assert search.best(Objective("loss"))[1] == min(search.scores)


def test_a_cell_that_only_diverges_has_no_best():
    [search] = tune_cells(
        lambda asked: [(math.nan, math.nan)] * len(asked), Cells((0.5,), (10,)), SPACE, CellTuner(steps=6)
    )
    assert search.best(Objective()) is None
    assert len(search.configs) == 6


def test_who_is_killed_goes_on_and_ends_the_same(tmp_path):
    tuner = CellTuner(steps=9, patience=4, warm_start=True)
    whole = tune_cells(Scorer(), CELLS, SPACE, tuner)
    path = tmp_path / "steps.jsonl"
    for stop_after in (3, 1, 5):
        with pytest.raises(KeyboardInterrupt):
            tune_cells(Scorer(stop_after), CELLS, SPACE, tuner, journal=Journal(path, {"a": 1}))
        # A crash in the middle of a write leaves half a line.
        with path.open("a") as file:
            file.write('{"cell": 0, "conf')
    rest = Scorer()
    again = tune_cells(rest, CELLS, SPACE, tuner, journal=Journal(path, {"a": 1}))
    assert [s.configs for s in again] == [s.configs for s in whole]
    assert np.array_equal([s.scores[0] for s in again], [s.scores[0] for s in whole])
    assert sum(map(len, rest.asked)) < sum(len(s.configs) for s in whole)
    with pytest.raises(InputError, match="begun with other settings \\(a\\)"):
        Journal(path, {"a": 2})


def test_steps_of_some_cells_only_are_taken_up(tmp_path):
    """A crash between the lines of one step: each cell goes on from its own."""
    tuner = CellTuner(steps=5, patience=None)
    whole = tune_cells(Scorer(), CELLS, SPACE, tuner, journal=Journal(tmp_path / "a.jsonl", {}))
    lines = (tmp_path / "a.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b.jsonl").write_text("".join(lines[: 1 + 4 + 4 + 2]))
    again = tune_cells(Scorer(), CELLS, SPACE, tuner, journal=Journal(tmp_path / "b.jsonl", {}))
    assert [s.configs for s in again] == [s.configs for s in whole]


def test_a_warm_start_tries_the_neighbours_best_first():
    searches = tune_cells(Scorer(), CELLS, SPACE, CellTuner(steps=8, patience=None, warm_start=True))
    # Cells 0 and 3 come first (one colour of the chessboard); 1 and 2 are neighbours of both.
    best = [searches[cell].best(Objective())[0] for cell in (0, 3)]
    for cell in (1, 2):
        assert searches[cell].configs[:2] == best


def test_a_grid_goes_through_in_order_and_ends():
    tuner = CellTuner("grid", steps=100, patience=None, points=4)
    searches = tune_cells(Scorer(), CELLS, SPACE, tuner)
    assert [s.configs for s in searches] == [list(SPACE.grid(4))] * 4


def test_the_gp_needs_fewer_steps_than_random_search_on_a_pool():
    """A pool of 150 configs, as in the paper's Figure 5; steps until within half a point of its best."""
    rng = np.random.default_rng(5)

    def sharp(cell, config):
        return score(cell, config) - 0.6 * math.log10(config.client["lr"] / BEST[cell]) ** 2

    pool = list(dict.fromkeys(SPACE.sample(rng) for _ in range(150)))
    best = [np.nanmax([sharp(cell, config) for config in pool]) for cell in range(4)]

    def steps(sampler, seed):
        most = 20 if sampler == "gp" else len(pool)
        searches = tune_cells(
            lambda asked: [(sharp(cell, config), 0.0) for cell, config in asked],
            CELLS,
            SPACE,
            CellTuner(sampler, most, None),
            seed=seed,
            pools=[pool] * len(CELLS),
        )
        assert all(config in pool for search in searches for config in search.configs)
        return [
            next((i + 1 for i, s in enumerate(search.scores) if s >= top - 0.005), len(pool))
            for search, top in zip(searches, best, strict=True)
        ]

    gp, random = ([n for seed in range(2) for n in steps(sampler, seed)] for sampler in ("gp", "random"))
    assert np.median(gp) < np.median(random) / 2


def test_a_lucky_score_does_not_win_where_its_error_is_known():
    """30 configs over the rate, the best at 0.1; one at 0.9 was lucky by 4 standard errors."""
    pool = [fh.Config(client={"lr": 10 ** (-3 + k / 10), "epochs": 4}) for k in range(30)]
    lucky = pool[-1]

    def scored(error):
        def scorer(asked):
            return [(0.99 if config == lucky else score(2, config), error) for _, config in asked]

        [search] = tune_cells(
            scorer, Cells((0.5,), (10,)), SPACE, CellTuner("gp", 30, None), pools=[pool], seed=1
        )
        return search.best(Objective())[0]

    assert scored(0.0) == lucky
    assert abs(math.log10(scored(0.1).client["lr"] / BEST[2])) < 0.5


def test_errors_survive_the_journal(tmp_path):
    def scorer(asked):
        return [(score(cell, config), 0.05) for cell, config in asked]

    tuner = CellTuner(steps=8, patience=None)
    whole = tune_cells(scorer, CELLS, SPACE, tuner, journal=Journal(tmp_path / "a.jsonl", {}))
    again = tune_cells(Scorer(0), CELLS, SPACE, tuner, journal=Journal(tmp_path / "a.jsonl", {}))
    assert [s.chosen for s in again] == [s.chosen for s in whole]
    assert all(search.chosen is not None for search in whole)


def test_the_gp_sees_the_logarithm_of_a_listed_rate():
    """Rates 0.002 to 0.8 in steps of 0.002: 0.002 and 0.02 are as far apart as 0.08 and 0.8."""
    space = fh.Space(client={"lr": fh.Ordinal([round(0.002 * k, 3) for k in range(1, 401)], log=True)})
    cube = Cube(space)
    features, _ = cube.features(cube.points(fh.Config(client={"lr": r}) for r in (0.002, 0.02, 0.08, 0.8)))
    low, decade, other, high = features[:, 0]
    assert (low, high) == (0.0, 1.0)
    assert decade - low == pytest.approx(high - other) == pytest.approx(1 / math.log10(400))
    assert fh.Space.from_dict(space.to_dict()) == space
    # Draws are those of the list without it.
    plain = fh.Space(client={"lr": fh.Ordinal([round(0.002 * k, 3) for k in range(1, 401)])})
    draws = [s.sample(np.random.default_rng(3)).client["lr"] for s in (space, plain)]
    assert draws[0] == draws[1]
    with pytest.raises(InputError, match="log=True needs numbers above 0"):
        fh.Ordinal([0, 1, 2], log=True)


@pytest.mark.parametrize("bad", [{"sampler": "bo"}, {"steps": 0}, {"patience": 0}, {"points": True}])
def test_mistakes(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        CellTuner(**bad)

"""The four surfaces on parties whose losses are known."""

import numpy as np
import pytest
from hand_made import LINE, MIXED, mixed_party, on_line, opposed
from sklearn.ensemble import RandomForestRegressor

from fedhpo.core.errors import InputError
from fedhpo.methods.flora.surfaces import SURFACES, fit_surface, minimise
from fedhpo.methods.flora.surfaces.own import own_regressors
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.space.config import Config

GRID = [Config(client={"x": x}) for x in np.linspace(0, 1, 41).tolist()]


def worse_off(x: float) -> float:
    """The true loss of the party of `opposed` that is worse off."""
    return max((x - 0.1) ** 2, (x - 0.9) ** 2)


@pytest.mark.parametrize("regressor", ["forest", "gp"])
@pytest.mark.parametrize("name", ["mplm", "aplm"])
def test_the_parties_own_regressors_find_the_middle(name: str, regressor: str) -> None:
    surface = fit_surface(name, LINE, opposed(), seed=0, regressor=regressor)
    config, loss = minimise(surface, LINE, seed=0)
    assert 0.35 < config.client["x"] < 0.65
    assert worse_off(config.client["x"]) < 0.35
    assert loss == pytest.approx(0.16, abs=0.08)


def test_one_regressor_of_all_pairs_takes_the_side_of_one_party() -> None:
    config, loss = minimise(fit_surface("sgm", LINE, opposed(), seed=0), LINE, seed=0)
    assert min(abs(config.client["x"] - 0.1), abs(config.client["x"] - 0.9)) < 0.1
    assert worse_off(config.client["x"]) > 0.5  # the other party has nearly its worst there
    assert loss < 0.1  # and the surface does not know


@pytest.mark.parametrize("regressor", ["forest", "gp"])
def test_per_party_surfaces_are_made_of_the_parties_own_regressors(regressor: str) -> None:
    parties = opposed()
    own = own_regressors(LINE, parties, regressor, 3)
    points = np.linspace(0, 1, 41)[:, None]
    low, high = (one.predict(points) for one in own)
    # Had the two learnt from the same pairs, they would agree.
    assert np.abs(low - high).max() > 0.5
    mplm, aplm = (
        fit_surface(name, LINE, parties, seed=3, regressor=regressor).predict(GRID)
        for name in ("mplm", "aplm")
    )
    assert mplm == pytest.approx(np.maximum(low, high))
    assert aplm == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("name", ["mplm", "aplm"])
def test_what_one_party_sends_moves_no_other_partys_regressor(name: str) -> None:
    """The regressor of party 0 is the same whoever the others are; over the pooled trees it would not be."""
    parties = opposed()
    alone = fit_surface(name, LINE, parties[:1], seed=3)
    constant = on_line(1, np.linspace(0, 1, 9), lambda x: -1.0)
    both = fit_surface(name, LINE, [parties[0], constant], seed=3)
    expected = alone.predict(GRID) if name == "mplm" else (alone.predict(GRID) - 1) / 2
    assert both.predict(GRID) == pytest.approx(expected)


def test_constant_parties_by_hand() -> None:
    """Losses 0.2 of 10 rows and 0.6 of 30: forests of constants are exact."""
    xs = np.linspace(0, 1, 8)
    parties = [on_line(0, xs, lambda x: 0.2, size=10), on_line(1, xs, lambda x: 0.6, size=30)]
    middle = [Config(client={"x": 0.5})]

    def at(name: str, **options: str) -> float:
        return float(fit_surface(name, LINE, parties, seed=0, **options).predict(middle)[0])

    assert at("mplm") == pytest.approx(0.6)
    assert at("aplm") == pytest.approx(0.4)
    assert at("aplm", weighting="size") == pytest.approx(0.25 * 0.2 + 0.75 * 0.6)


def test_by_size_a_partys_pairs_count_together_as_its_rows() -> None:
    """Two parties at one and the same point, one with twice the pairs: only the rows decide."""
    same = Config(client={"x": 0.5})
    parties = [PartyPairs(0, 10, (same,) * 40, (0.2,) * 40), PartyPairs(1, 30, (same,) * 20, (0.6,) * 20)]
    found = fit_surface("sgm", LINE, parties, seed=0, weighting="size").predict([same])[0]
    assert found == pytest.approx(0.25 * 0.2 + 0.75 * 0.6, abs=0.05)
    plain = fit_surface("sgm", LINE, parties, seed=0).predict([same])[0]
    assert plain == pytest.approx((40 * 0.2 + 20 * 0.6) / 60, abs=0.05)
    process = fit_surface("sgm", LINE, parties, seed=0, weighting="size", regressor="gp").predict([same])[0]
    assert process == pytest.approx(0.25 * 0.2 + 0.75 * 0.6, abs=0.03)


def test_uncertainty_is_the_deviation_over_the_trees() -> None:
    parties = opposed()
    plain = fit_surface("sgm", LINE, parties, seed=5)
    forest = plain.pooled.forest  # type: ignore[attr-defined]
    assert isinstance(forest, RandomForestRegressor)
    assert len(forest.estimators_) == 100
    points = np.array([[config.client["x"]] for config in GRID])
    trees = np.stack([tree.predict(points.astype(np.float32)) for tree in forest.estimators_])
    assert plain.predict(GRID) == pytest.approx(forest.predict(points))
    for alpha in (1.0, 2.5):
        unsure = fit_surface("sgm+u", LINE, parties, seed=5, alpha=alpha)
        assert unsure.predict(GRID) == pytest.approx(trees.mean(axis=0) + alpha * trees.std(axis=0))


def test_a_process_knows_the_losses_and_is_unsure_far_away() -> None:
    party = on_line(0, np.linspace(0, 0.5, 21), lambda x: x * x)
    plain, unsure = (
        fit_surface(name, LINE, [party], seed=0, regressor="gp", alpha=1.0) for name in ("sgm", "sgm+u")
    )
    assert plain.predict(party.configs) == pytest.approx(party.losses, abs=0.01)
    added = unsure.predict(GRID) - plain.predict(GRID)
    assert added[0] < added[-1] / 5


@pytest.mark.parametrize("name", SURFACES)
def test_the_best_pairs_alone_reach_every_surface(name: str) -> None:
    """Of losses 0.1 and 0.9, all that the best half leaves is 0.1."""
    xs = np.linspace(0, 1, 20)
    parties = [on_line(i, xs, lambda x: 0.1 if x < 0.5 else 0.9).best(10) for i in range(2)]
    assert fit_surface(name, LINE, parties, seed=0).predict(GRID) == pytest.approx(0.1)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("name", SURFACES)
def test_the_seed_decides(name: str) -> None:
    parties = [mixed_party(i, seed=i) for i in range(2)]
    asked = [MIXED.sample(np.random.default_rng(i)) for i in range(20)]
    a, b, other = (fit_surface(name, MIXED, parties, seed=seed).predict(asked) for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, other)


def test_a_choice_that_hangs_on_nothing_is_told_from_the_middle() -> None:
    """depth is inactive for svm and sits in the middle there: its losses must not leak to depth 5."""
    svm, trees = (
        {"model": {"algorithm": "svm"}, "client": {"C": 1.0}},
        {"model": {"algorithm": "trees"}, "client": {"depth": 5}},
    )
    configs = tuple(MIXED.complete(table) for table in [svm] * 30 + [trees] * 30)
    party = PartyPairs(0, 10, configs, (0.1,) * 30 + (0.9,) * 30)
    found = fit_surface("aplm", MIXED, [party], seed=0).predict([MIXED.complete(svm), MIXED.complete(trees)])
    assert found == pytest.approx([0.1, 0.9], abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "aplmm"}, "unknown surface 'aplmm' .did you mean 'aplm'"),
        ({"weighting": "rows"}, "unknown weighting 'rows'"),
        ({"regressor": "tree"}, "unknown regressor 'tree'"),
        ({"name": "sgm+u", "alpha": 0.0}, "alpha must be above 0, found 0.0"),
        ({"name": "mplm", "weighting": "size"}, "mplm takes the maximum"),
        ({"parties": []}, "parties is empty"),
        ({"space": Space(client={"x": 1.0})}, "no hyperparameter to tune"),
    ],
)
def test_what_makes_no_surface_is_refused(arguments: dict, message: str) -> None:
    given = {"name": "aplm", "space": LINE, "parties": opposed(), "seed": 0} | arguments
    with pytest.raises(InputError, match=message):
        fit_surface(**given)


def test_a_process_refuses_more_pairs_than_it_can_bear() -> None:
    many = on_line(0, np.linspace(0, 1, 1501), lambda x: x)
    with pytest.raises(InputError, match="takes at most 1500 pairs, found 1501"):
        fit_surface("sgm", LINE, [many], seed=0, regressor="gp")

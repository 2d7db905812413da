"""Diagnostics against values computed by hand."""

import json
import math

import numpy as np
import pytest
from hand_made import LINE, on_line, opposed
from scipy.stats import spearmanr

from fedhpo.core.errors import InputError
from fedhpo.data import wasserstein
from fedhpo.methods.flora.surfaces import SURFACES, diagnose
from fedhpo.methods.flora.surfaces.heterogeneity import gamma
from fedhpo.methods.flora.surfaces.left_out import LeftOut, _compared, leave_out, recommend
from fedhpo.methods.flora.surfaces.own import own_regressors
from fedhpo.methods.flora.surfaces.surface import Surface
from fedhpo.space.config import Config

XS = np.linspace(0, 1, 11)


def test_gamma_is_the_ratio_of_the_best_scores() -> None:
    parties = [on_line(i, XS, lambda x, best=best: best + x) for i, best in enumerate((0.1, 0.4, 0.25))]
    found = diagnose(LINE, parties)
    assert (found["pmin"], found["pmax"]) == (pytest.approx(0.6), pytest.approx(0.9))
    assert found["gamma"] == pytest.approx(1.5)
    assert [row["best"] for row in found["parties"]] == pytest.approx([0.9, 0.6, 0.75])


def test_gamma_of_losses_above_one_is_not_known() -> None:
    assert math.isnan(gamma([on_line(0, XS, lambda x: 1.5)]))
    assert diagnose(LINE, [on_line(0, XS, lambda x: 1.5)])["gamma"] is None


def test_gap_is_what_the_own_search_gained_over_the_default() -> None:
    found = diagnose(LINE, opposed(), default_losses=(0.16, 0.5))
    assert [row["gap"] for row in found["parties"]] == pytest.approx([0.16, 0.5], abs=1e-3)


def test_terms_of_the_bound_by_hand() -> None:
    """0.5 is a tried point of party 0; party 1 tried 0.2 at nearest. A forest of a constant has no error."""
    parties = [on_line(0, [0.0, 0.5, 1.0], lambda x: 0.3), on_line(1, [0.0, 0.2], lambda x: 0.3)]
    rows = diagnose(LINE, parties, config=Config(client={"x": 0.5}))["parties"]
    assert [row["nearest"] for row in rows] == pytest.approx([0.0, 0.3])
    assert [row["delta"] for row in rows] == pytest.approx([0.0, 0.0])


def test_delta_is_the_largest_error_on_own_pairs() -> None:
    party = opposed()[0]
    (own,) = own_regressors(LINE, [party], "forest", 7)
    points = np.array([[config.client["x"]] for config in party.configs])
    expected = np.abs(own.predict(points) - party.losses).max()
    assert diagnose(LINE, [party], seed=7)["parties"][0]["delta"] == pytest.approx(expected)
    assert expected > 0


def test_distances_are_part_of_the_diagnosis() -> None:
    rows = [(np.zeros((6, 2)), np.zeros(6)), (np.zeros((6, 2)), np.ones(6))]
    found = diagnose(LINE, opposed(), distances=wasserstein(rows))["wasserstein"]
    assert found["distances"] == [[0.0, 1.0], [1.0, 0.0]]


class Line(Surface):
    """Predicts x itself."""

    name = "line"

    def at(self, points: np.ndarray) -> np.ndarray:
        return points[:, 0]


def test_figures_of_a_party_left_out_by_hand() -> None:
    """Predicted 0, 0.5, 1; seen 0.2, 0.1, 0.9: the choice is x = 0, a tenth above the party's best."""
    losses = {0.0: 0.2, 0.5: 0.1, 1.0: 0.9}
    party = on_line(0, losses, losses.__getitem__)
    error, rank, regret = _compared(Line(LINE, [party]), party)
    assert error == pytest.approx(math.sqrt((0.04 + 0.16 + 0.01) / 3))
    assert rank == pytest.approx(spearmanr([0, 0.5, 1], [0.2, 0.1, 0.9]).statistic)
    assert regret == pytest.approx(0.1)


def test_surfaces_of_the_others_predict_the_party_left_out() -> None:
    """Three parties with the same losses: whoever is left out is predicted well by all but the cautious."""
    parties = [on_line(i, XS, lambda x: (x - 0.3) ** 2) for i in range(3)]
    own = own_regressors(LINE, parties, "forest", 0)
    found = leave_out(LINE, parties, own, seed=0)
    assert set(found) == set(SURFACES)
    assert all(figure.regret == pytest.approx(0, abs=0.02) for figure in found.values())
    assert all(figure.rank > 0.8 for figure in found.values())
    assert found["aplm"].error < 0.05
    assert leave_out(LINE, parties[:1], own[:1], seed=0) == {}


@pytest.mark.usefixtures("few_trees")
def test_many_parties_are_left_out_in_groups() -> None:
    parties = [on_line(i, XS[::2], lambda x: x) for i in range(11)]
    own = own_regressors(LINE, parties, "forest", 0)
    assert leave_out(LINE, parties, own, seed=0)["aplm"].regret == 0


def figures(**regrets: float) -> dict[str, LeftOut]:
    given = {"sgm": 0.1, "sgm+u": 0.1, "mplm": 0.1, "aplm": 0.1} | regrets
    return {name: LeftOut(0.1, 0.5, regret, 0.02) for name, regret in given.items()}


def test_the_recommended_surface() -> None:
    assert recommend(figures(), gamma=1.02)[0] == "aplm"
    assert recommend(figures(), gamma=1.2)[0] == "mplm"
    assert recommend(figures(sgm=0.09), gamma=1.02)[0] == "aplm"  # within a standard error
    surface, why = recommend(figures(sgm=0.01), gamma=1.02)
    assert surface == "sgm"
    assert "0.0100" in why
    assert recommend({}, gamma=1.0)[0] == "aplm"


def test_a_diagnosis_is_json() -> None:
    found = diagnose(LINE, opposed(), config=Config(client={"x": 0.5}))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["recommended"] in SURFACES


def test_losses_that_do_not_fit_the_parties_are_refused() -> None:
    with pytest.raises(InputError, match="default_losses must have one entry for each of 2 parties, found 1"):
        diagnose(LINE, opposed(), default_losses=[0.5])

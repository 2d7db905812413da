"""The pictures hold the surface and every point that was tried."""

from pathlib import Path

import pytest
from hand_made import LINE, MIXED, mixed_party, opposed

from fedhpo.core.errors import InputError
from fedhpo.methods.flora.surfaces import fit_surface, minimise
from fedhpo.methods.flora.surfaces.plots import contour, slice_along, write_plots
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Choice, Float, Space
from fedhpo.space.config import Config

PLANE = Space(client={"lr": Float(0.01, 1, log=True)}, model={"kind": Choice(["a", "b"])})


def plane_party() -> PartyPairs:
    configs = tuple(PLANE.grid(5))
    losses = tuple((0.1 if config.model["kind"] == "a" else 0.8) for config in configs)
    return PartyPairs(0, 10, configs, losses)


def test_a_slice_shows_surface_models_and_points() -> None:
    parties = opposed()
    surface = fit_surface("mplm", LINE, parties, seed=0)
    config = Config(client={"x": 0.5})
    drawn = {trace["name"]: trace for trace in slice_along(surface, "client.x", config, parties)["data"]}
    line = drawn["mplm"]
    assert line["y"] == surface.predict([Config(client={"x": x}) for x in line["x"]]).tolist()
    assert line["y"] == [
        max(pair) for pair in zip(*(drawn[f"model of party {i}"]["y"] for i in (0, 1)), strict=True)
    ]
    for i, party in enumerate(parties):
        points = drawn[f"tried by party {i}"]
        assert (points["x"], points["y"]) == (
            [tried.client["x"] for tried in party.configs],
            list(party.losses),
        )
    assert drawn["recommended"]["x"] == [0.5]


def test_a_contour_shows_surface_and_points() -> None:
    party = plane_party()
    surface = fit_surface("aplm", PLANE, [party], seed=0)
    config = PLANE.complete({"model": {"kind": "a"}})
    ground, points, best = contour(surface, "client.lr", "model.kind", config, [party])["data"]
    assert ground["y"] == ["a", "b"]
    assert ground["z"][0] == pytest.approx([0.1] * len(ground["x"]), abs=0.05)
    assert ground["z"][1] == pytest.approx([0.8] * len(ground["x"]), abs=0.05)
    assert len(points["x"]) == 10
    assert best["y"] == ["a"]


def test_points_without_the_hyperparameter_are_left_out() -> None:
    party = mixed_party(0, seed=0)
    surface = fit_surface("sgm", MIXED, [party], seed=0)
    config = MIXED.complete({"model": {"algorithm": "trees"}})
    points = slice_along(surface, "client.depth", config, [party])["data"][-2]
    assert len(points["x"]) == sum("depth" in tried.client for tried in party.configs)
    with pytest.raises(InputError, match=r"unknown hyperparameter 'client\.C'"):
        slice_along(surface, "client.C", config)
    with pytest.raises(InputError, match=r"found 'client\.depth' twice"):
        contour(surface, "client.depth", "client.depth", config)


def test_the_page_holds_all_figures(tmp_path: Path) -> None:
    party = plane_party()
    surface = fit_surface("aplm", PLANE, [party], seed=0)
    config, _ = minimise(surface, PLANE, seed=0)
    page = write_plots(surface, config, [party], tmp_path / "surface.html").read_text(encoding="utf-8")
    for name in ("slice-0", "slice-1", "contour-0"):
        assert f'id="{name}"' in page

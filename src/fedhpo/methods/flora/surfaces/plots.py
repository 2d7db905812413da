"""Pictures of a surface: contours over two hyperparameters, slices along each, and what was tried.

Figures are plain data for plotly.js, as in the report; `write_plots` puts them on a page of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.flora.surfaces.own import OfParties
from fedhpo.methods.flora.surfaces.surface import Surface
from fedhpo.pages.configs import scale_of
from fedhpo.pages.figure import MUTED, SEVERAL, WINNER, Figure, axis, drawn, figure
from fedhpo.pages.html import Section
from fedhpo.pages.page import frame
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.space.config import Config

#: Points along a hyperparameter.
_ALONG, _ACROSS = 101, 41
_LOSS = "predicted loss"


def slice_along(surface: Surface, name: str, config: Config, parties: Sequence[PartyPairs] = ()) -> Figure:
    """The surface along one hyperparameter, all others as in the config, and the losses that parties saw.

    Surfaces of the parties' own regressors show these too, one line each. A party's points were tried with
    other values of the other hyperparameters, so they need not lie on its line.
    """
    names = _active(surface.space, config)
    if name not in names:
        raise unknown_name("hyperparameter", name, names)
    place, values = _values(surface.space, name, _ALONG)
    points = np.repeat(surface.cube.points([config]), len(values), axis=0)
    points[:, place] = [surface.space.hyperparameters[name].to_unit(value) for value in values]
    points = surface.cube.snap(points)
    shown = _shown(surface.space, name, values)
    traces = []
    if isinstance(surface, OfParties):
        each = surface.of_each(points)
        traces = [
            _line(shown, each[i], f"model of party {party.party}", SEVERAL[i % len(SEVERAL)], 1)
            for i, party in enumerate(parties[: len(each)])
        ]
    traces.append(_line(shown, surface.at(points), surface.name, "#000000", 2.5))
    traces += [
        _tried(surface.space, name, None, party, SEVERAL[i % len(SEVERAL)]) for i, party in enumerate(parties)
    ]
    best = {
        "type": "scatter",
        "mode": "markers",
        "x": _shown(surface.space, name, [config.flat()[name]]),
        "y": [float(surface.predict([config])[0])],
        "name": "recommended",
        "marker": {"symbol": "star", "size": 14, "color": WINNER},
    }
    return figure([*traces, best], _axis(surface.space, name), axis("loss"))


def contour(surface: Surface, x: str, y: str, config: Config, parties: Sequence[PartyPairs] = ()) -> Figure:
    """The surface over two hyperparameters, all others as in the config, with what each party tried."""
    names = _active(surface.space, config)
    for name in (x, y):
        if name not in names:
            raise unknown_name("hyperparameter", name, names)
    if x == y:
        raise InputError(f"x and y must be two hyperparameters, found {x!r} twice")
    (across, xs), (up, ys) = (_values(surface.space, name, _ACROSS) for name in (x, y))
    points = np.repeat(surface.cube.points([config]), len(xs) * len(ys), axis=0)
    points[:, across] = np.tile([surface.space.hyperparameters[x].to_unit(value) for value in xs], len(ys))
    points[:, up] = np.repeat([surface.space.hyperparameters[y].to_unit(value) for value in ys], len(xs))
    losses = surface.at(surface.cube.snap(points)).reshape(len(ys), len(xs))
    ground = {
        "type": "contour",
        "x": _shown(surface.space, x, xs),
        "y": _shown(surface.space, y, ys),
        "z": losses.tolist(),
        "colorscale": [[0.0, "#0b7285"], [1.0, "#f1f3f5"]],
        "contours": {"coloring": "heatmap"},
        "line": {"width": 0.5, "color": MUTED},
        "colorbar": {"title": {"text": _LOSS, "side": "right"}, "thickness": 12},
        "hovertemplate": "%{x}, %{y}: %{z:.4f}<extra></extra>",
    }
    tried = [_tried(surface.space, x, y, party, SEVERAL[i % len(SEVERAL)]) for i, party in enumerate(parties)]
    best = {
        "type": "scatter",
        "mode": "markers",
        "x": _shown(surface.space, x, [config.flat()[x]]),
        "y": _shown(surface.space, y, [config.flat()[y]]),
        "name": "recommended",
        "marker": {
            "symbol": "star",
            "size": 15,
            "color": "#ffffff",
            "line": {"color": "#000000", "width": 1.5},
        },
    }
    return figure([ground, *tried, best], _axis(surface.space, x), _axis(surface.space, y), height=460)


def write_plots(surface: Surface, config: Config, parties: Sequence[PartyPairs], output: str | Path) -> Path:
    """A page with a slice along each active hyperparameter and contours over each two of them."""
    names = _active(surface.space, config)
    slices = "".join(
        drawn(slice_along(surface, name, config, parties), f"slice-{i}") for i, name in enumerate(names)
    )
    pairs = [(x, y) for i, x in enumerate(names) for y in names[i + 1 :]]
    contours = "".join(
        drawn(contour(surface, x, y, config, parties), f"contour-{i}") for i, (x, y) in enumerate(pairs)
    )
    sections = [Section("Slices", slices), *([Section("Contours", contours)] if pairs else [])]
    output = Path(output)
    output.write_text(frame(f"Surface {surface.name}", f"recommended: {config}", sections), encoding="utf-8")
    return output


def _active(space: Space, config: Config) -> list[str]:
    values = config.flat()
    return [name for name in space.names if name in values]


def _values(space: Space, name: str, points: int) -> tuple[int, list[Any]]:
    """Its place in the cube, and values over its range; discrete ones at most so many."""
    hyperparameter = space.hyperparameters[name]
    return space.names.index(name), hyperparameter.grid(points)


def _shown(space: Space, name: str, values: Sequence[Any]) -> list[Any]:
    """As plotly takes them: listed values are categories, written out."""
    listed = _scale(space, name)[0] == "category"
    return [str(value) for value in values] if listed else list(values)


def _scale(space: Space, name: str) -> tuple[str, dict[str, Any]]:
    scope, _, key = name.partition(".")
    return scale_of(space.to_dict()[scope][key])


def _axis(space: Space, name: str) -> dict[str, Any]:
    kind, marks = _scale(space, name)
    return axis(name, type=kind, **marks)


def _line(x: Sequence[Any], y: Any, name: str, colour: str, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": [float(value) for value in y],
        "name": name,
        "line": {"color": colour, "width": width},
    }


def _tried(space: Space, x: str, y: str | None, party: PartyPairs, colour: str) -> dict[str, Any]:
    """What a party tried, where these hyperparameters were active: by its loss, or over two of them."""
    kept = [
        (config.flat(), loss)
        for config, loss in zip(party.configs, party.losses, strict=True)
        if x in config.flat() and (y is None or y in config.flat())
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": _shown(space, x, [values[x] for values, _ in kept]),
        "y": [loss for _, loss in kept] if y is None else _shown(space, y, [values[y] for values, _ in kept]),
        "text": [f"loss {loss:.4f}" for _, loss in kept],
        "hovertemplate": "%{x}: %{text}<extra></extra>",
        "name": f"tried by party {party.party}",
        "marker": {"size": 6, "color": colour, "opacity": 0.7},
    }

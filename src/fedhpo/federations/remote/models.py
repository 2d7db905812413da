"""Models at the server: how a trial's first weights come about, and how they are laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.streams import derive
from fedhpo.core.vectors import Vector
from fedhpo.engine.flat import FlatModel, ModelFactory
from fedhpo.engine.frozen import Shapes, joint_digest
from fedhpo.federations.first_model import (
    fresh_model,
    warn_of_batch_norm,
    warn_of_drawn,
    warn_of_no_dropout,
)
from fedhpo.federations.remote.layout import Layout
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Arrays:
    """A non-PyTorch model: named arrays, made by `function(seed, **hyperparameters)`.

    >>> import numpy as np
    >>> model = Arrays(lambda seed, width=3: {"weight": np.zeros(width)})
    >>> model.first({"width": 2}, seed=0)[0].size
    2
    """

    function: Callable[..., Mapping[str, NDArray[Any]]]

    def first(self, hyperparameters: Mapping[str, Any], seed: int) -> tuple[Layout, Vector]:
        """Layout and first weights of a trial."""
        made = self.function(derive(seed, "model"), **hyperparameters)
        arrays = {str(name): np.asarray(array, np.float32) for name, array in made.items()}
        layout = Layout({name: array.shape for name, array in arrays.items()}, 0)
        return Layout(layout.shapes, layout.size), layout.join(arrays)

    def frozen_digest(self, _: Mapping[str, Any]) -> None:
        """Nothing is frozen: all arrays travel."""

    def preflight(self, config: Config) -> None:
        """Named arrays do not say which layers there are."""

    def trained(self, layout: Layout, vector: Vector, _: Mapping[str, Any]) -> Any:
        """A trial's model for use outside the federation: its named arrays."""
        return {name: array.copy() for name, array in layout.split(vector).items()}


@dataclass(frozen=True)
class TorchModel:
    """A model of torch, built by a factory as in the simulated federation."""

    factory: ModelFactory

    def first(self, hyperparameters: Mapping[str, Any], seed: int) -> tuple[Layout, Vector]:
        """Layout and first weights of a trial."""
        model = fresh_model(self._shapes, hyperparameters, seed)
        warn_of_batch_norm(model.module)
        warn_of_drawn(model)
        return layout_of(model), model.vector()

    def trained(self, layout: Layout, vector: Vector, hyperparameters: Mapping[str, Any]) -> Any:
        """A trial's model for use outside the federation: a module."""
        model = self._shapes.build(hyperparameters)
        model.load(vector)
        return model.module

    def preflight(self, config: Config) -> None:
        """Warn of a setting that the model does not honour."""
        warn_of_no_dropout(self._shapes.build(config.model).module, config.client)

    def frozen_digest(self, hyperparameters: Mapping[str, Any]) -> str | None:
        """The digest of weights that server and clients hold and never send; None if there are none."""
        found = self._shapes.frozen(hyperparameters)
        return joint_digest(found) if found else None

    @cached_property
    def _shapes(self) -> Shapes:
        return Shapes(self.factory)


def layout_of(model: FlatModel) -> Layout:
    """The layout of a torch model's flat vector."""
    return Layout(model.shapes, model.trainable_size)

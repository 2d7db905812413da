"""Touched rows: large embeddings are trained, sent, added up and charged by the rows that clients touch.

A client's tokens name a few rows of an embedding; no gradient ever reaches the others. So a client trains a
small table of its own rows, by the same steps. What weight decay, momentum and the proximal term do to a row
without gradients is the same multiple of that row everywhere: one row of ones, trained along and never looked
up, ends as that multiple. An update is then the dense rest of the model, one number for each table, and the
client's own rows: nothing is left out, and the result is the dense one but for rounding.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedhpo.core.vectors import Vector
from fedhpo.data import FederatedData
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import ADAM, Local
from fedhpo.engine.outputs import Batch, forward
from fedhpo.engine.tensors import alike, hooked

#: Numbers that an embedding has at least, to be trained by rows: copies of smaller ones cost next to nothing.
LEAST = 250_000
#: The share of its rows that a round's clients touch at most, on average: with more, whole tables are faster.
MOST_SHARE = 0.25

Ids = NDArray[np.int64]
_LAYERS = nn.Embedding, nn.EmbeddingBag


class UnknownRow(LookupError):
    """A model looked up a row that no token of the client names."""


@dataclass(frozen=True)
class Table:
    """An embedding: the name of its parameter, where it begins in the model's vector, and its shape."""

    name: str
    begin: int
    rows: int
    width: int

    @property
    def end(self) -> int:
        """Where it ends in the model's vector."""
        return self.begin + self.rows * self.width

    def of(self, vector: Vector) -> Vector:
        """This table of a model's vector, as a matrix."""
        return vector[self.begin : self.end].reshape(self.rows, self.width)


@dataclass(frozen=True)
class RowLayout:
    """A model's vector of `size` numbers whose `tables` travel by rows, and the rest of it as it is.

    >>> layout = RowLayout(20, (Table("word.weight", 3, 5, 2),))
    >>> layout.rest, layout.down(2), layout.up(2), layout.room(2)
    (10, 14, 17, 18)
    """

    size: int
    tables: tuple[Table, ...]

    @property
    def rest(self) -> int:
        """Numbers outside of the tables."""
        return self.size - sum(table.end - table.begin for table in self.tables)

    @property
    def width(self) -> int:
        """Numbers of a row, over all tables."""
        return sum(table.width for table in self.tables)

    @property
    def rows(self) -> int:
        """Rows that all tables have."""
        return min(table.rows for table in self.tables)

    def down(self, touched: int) -> int:
        """Numbers that a client gets which needs so many rows."""
        return self.rest + touched * self.width

    def up(self, touched: int) -> int:
        """Numbers that it sends: the same, which rows these are, and what becomes of the others."""
        return self.down(touched) + touched + len(self.tables)

    def room(self, touched: int) -> int:
        """Numbers that a sum of updates takes: an update, and how many rows it has."""
        return self.up(touched) + 1

    def outside(self, vector: Vector) -> Iterator[Vector]:
        """The stretches of a model's vector between the tables."""
        ends = [0, *itertools.chain.from_iterable((t.begin, t.end) for t in self.tables), self.size]
        for begin, end in zip(ends[::2], ends[1::2], strict=True):
            if end > begin:
                yield vector[begin:end]

    def rest_of(self, vector: Vector) -> Vector:
        """What lies outside of the tables, as one vector."""
        return np.concatenate([np.zeros(0, np.float32), *self.outside(vector)])

    def touched(self, data: FederatedData, rows: NDArray[np.int64]) -> Ids:
        """The rows of the tables that these rows of the data name, in ascending order."""
        named = np.zeros(self.rows, np.bool_)
        chosen = data.x[rows]
        for part in [chosen] if chosen.dtype.names is None else [chosen[n] for n in chosen.dtype.names]:
            if part.dtype.kind in "iu":
                ids = part.reshape(-1).astype(np.int64)
                named[ids[(ids >= 0) & (ids < self.rows)]] = True
        return np.flatnonzero(named)

    def spread(self, change: Vector, start: Vector, shared: Sequence[float]) -> None:
        """Add to a change, for each table, `shared` times what it was at the start."""
        for table, factor in zip(self.tables, shared, strict=True):
            if factor:
                into = torch.from_numpy(change[table.begin : table.end])
                into.add_(torch.from_numpy(start[table.begin : table.end]), alpha=float(factor))


@dataclass(frozen=True)
class RowSum:
    """A weighted sum of updates by rows, as it lies in memory."""

    layout: RowLayout
    memory: Vector

    @property
    def rest(self) -> Vector:
        """Of what lies outside of the tables."""
        return self.memory[: self.layout.rest]

    @property
    def shared(self) -> Vector:
        """For each table the sum of the multiples of its start."""
        return self.memory[self.layout.rest :][: len(self.layout.tables)]

    @property
    def _whole(self) -> NDArray[np.int32]:
        return self.memory[self.layout.rest + len(self.layout.tables) :].view(np.int32)

    @property
    def ids(self) -> NDArray[np.int32]:
        """The rows that are touched, in ascending order."""
        return self._whole[1 : 1 + int(self._whole[0])]

    def of_tables(self) -> Iterator[Vector]:
        """For each table, its touched rows."""
        count = len(self.ids)
        begin = self.layout.rest + len(self.layout.tables) + 1 + count
        for table in self.layout.tables:
            yield self.memory[begin : begin + count * table.width].reshape(count, table.width)
            begin += count * table.width

    def clear(self, ids: Ids) -> None:
        """Become the sum of nothing, in these rows."""
        self._whole[0] = len(ids)
        self.ids[:] = ids
        self.rest[:] = 0
        self.shared[:] = 0
        for part in self.of_tables():
            part[:] = 0

    def add_to(self, total: Vector) -> None:
        """Add all but the shared multiples to a model's vector."""
        ids, begin = torch.from_numpy(self.ids.astype(np.int64)), 0
        for part in self.layout.outside(total):
            part += self.rest[begin : begin + len(part)]
            begin += len(part)
        for table, values in zip(self.layout.tables, self.of_tables(), strict=True):
            torch.from_numpy(table.of(total)).index_add_(0, ids, torch.from_numpy(values))


@dataclass(frozen=True)
class RowChange:
    """A client's update: of the rest, for each table the multiple and, beyond it, its own rows.

    `squared` is the square of the update's norm, where it was asked for.
    """

    rest: Vector
    shared: list[float]
    own: list[Tensor]
    squared: float = 0.0

    @property
    def finite(self) -> bool:
        """Whether all its numbers are."""
        parts = [torch.from_numpy(self.rest), torch.tensor(self.shared), *self.own]
        return all(bool(torch.isfinite(part).all()) for part in parts)


def exact(h: Local) -> bool:
    """Whether rows without gradients become a multiple of themselves under these steps.

    Not with Adam's weight decay, which is not linear, and not where a gradient is shortened by a norm to
    which decayed rows add, pulled back to the start.
    """
    if not h.weight_decay:
        return True
    return h.optimiser != ADAM and not (h.prox and h.max_grad_norm is not None)


class RowModel:
    """A module whose tables hold the rows of one client at a time, and a row of ones behind them."""

    def __init__(self, module: nn.Module, layout: RowLayout, frozen: Sequence[str] = ()) -> None:
        self.layout = layout
        self._parameters = [module.get_parameter(table.name) for table in layout.tables]
        for parameter in self._parameters:
            parameter.data = torch.zeros(1, parameter.shape[1])
        self.flat = FlatModel(module, frozen, by_rows=[table.name for table in layout.tables])
        self._place = torch.full((layout.rows,), -1)
        self._layers = [module.get_submodule(table.name.rpartition(".")[0]) for table in layout.tables]
        self._padding = [getattr(layer, "padding_idx", None) for layer in self._layers]
        for layer in self._layers:
            layer.register_forward_pre_hook(self._look_up)
        self._known = torch.zeros(0, dtype=torch.int64)
        self._room = np.empty(layout.rest, np.float32)

    def _look_up(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        ids, *others = inputs
        try:
            places = self._place.index_select(0, ids.reshape(-1).long()).view(ids.shape)
        except IndexError as error:
            raise UnknownRow(str(error)) from None
        if places.numel() and int(places.min()) < 0:
            raise UnknownRow("a row that no token names")
        return places, *others

    def load(self, start: Vector, own: Ids, further: Ids | None = None) -> None:
        """Take the rest of a model's vector and the client's own rows; `further` ones are to be scored."""
        self._own = len(own)
        ids = own if further is None else np.concatenate([own, np.setdiff1d(further, own)])
        self._place[self._known] = -1
        self._known = torch.from_numpy(ids)
        self._place[self._known] = torch.arange(len(ids))
        self._rest = self.layout.rest_of(start)
        self.flat.load(self._rest)
        self._start = start
        self._before = []
        for table, parameter, layer, padding in zip(
            self.layout.tables, self._parameters, self._layers, self._padding, strict=True
        ):
            rows = torch.from_numpy(table.of(start)).index_select(0, self._known)
            self._before.append(rows[: self._own])
            parameter.data = torch.cat([rows, torch.ones(1, table.width)])
            if padding is not None:  # it gets no gradient
                place = int(self._place[padding])
                layer.padding_idx = None if place < 0 else place  # type: ignore[assignment]

    def change(self, scale: float, measured: bool) -> RowChange:
        """The update, times `scale`."""
        self.flat.write_change(self._rest, self._room)
        rest = self._room if scale == 1.0 else self._room * np.float32(scale)
        shared, own, squared = [], [], 0.0
        for table, parameter, before in zip(self.layout.tables, self._parameters, self._before, strict=True):
            factor = float(parameter.data[-1, 0]) - 1.0
            moved = parameter.data[: self._own] - before
            if measured:
                squared += float(moved.double().square().sum())
                if factor:
                    whole = torch.from_numpy(table.of(self._start)).double().square().sum()
                    squared += factor**2 * float(whole - before.double().square().sum())
            if factor:
                moved.sub_(before, alpha=factor)
            shared.append(scale * factor)
            own.append(moved if scale == 1.0 else moved.mul_(scale))
        if measured:
            squared = scale**2 * squared + float(np.square(rest, dtype=np.float64).sum())
        return RowChange(rest, shared, own, squared)


def has_tables(model: FlatModel) -> bool:
    """Whether a model has an embedding so large that its rows count."""
    return any(
        isinstance(part, _LAYERS) and part.weight.requires_grad and part.weight.numel() >= LEAST
        for part in model.module.modules()
    )


def row_layout(model: FlatModel, x: Any) -> tuple[RowLayout | None, str]:
    """How models of this shape travel by rows, or None and, where they have a large embedding, why not.

    A fixed rule, never a timing: results repeat. On a few rows, a table of the tokens' rows alone must give
    the outputs and gradients of the whole one.
    """
    tables, why = _tables(model)
    if not tables:
        return None, why
    layout = RowLayout(model.size, tuple(tables))
    if model.module.training:
        model.module.eval()
    tokens = _tokens(x)
    if tokens is None:
        return None, "its inputs are not tokens"
    ids = tokens[(tokens >= 0) & (tokens < layout.rows)].unique().numpy()
    whole = copy.deepcopy(model.module).eval()
    try:
        small = RowModel(copy.deepcopy(model.module).eval(), layout, list(model.frozen))
        small.load(model.vector(), ids)
        output, gradients = _gradients(whole, x)
        other, others = _gradients(small.flat.module, x)
    except (
        Exception
    ) as error:  # such as a row that no token names; what fails always will be told in training
        return None, f"tried on a few rows: {type(error).__name__}"
    rows = {table.name: torch.from_numpy(ids) for table in tables}
    for name, gradient in gradients.items():
        found = others.get(name)
        if name in rows and gradient is not None and found is not None:
            if bool(gradient.index_fill(0, rows[name], 0.0).any()):
                return None, f"{name} gets gradients in rows that no token names"
            gradient, found = gradient[rows[name]], found[:-1]
        if (gradient is None) != (found is None):
            return None, f"the gradient of {name} would be another"
        if gradient is not None and found is not None and not alike(gradient, found):
            return None, f"the gradient of {name} would be another"
    return (layout, "") if alike(output, other) else (None, "its output would be another")


def _tokens(x: Any) -> Tensor | None:
    """All whole numbers of a batch; None if there are none."""
    parts = list(x.named.values()) if isinstance(x, Batch) else [x]
    whole = [part.reshape(-1) for part in parts if not part.is_floating_point()]
    return torch.cat(whole) if whole else None


def _tables(model: FlatModel) -> tuple[list[Table], str]:
    """The embeddings that are large, trained, and used as tables alone; else why one of them is not."""
    hooks, owners = set(hooked(model.module)), _owners(model.module)
    found, why, begin = [], "", 0
    for name, shape in model.shapes.items():
        size = int(np.prod(shape, dtype=np.int64))
        layer = model.module.get_submodule(name.rpartition(".")[0])
        if name in model.trainable and size >= LEAST and isinstance(layer, _LAYERS):
            weight = model.trainable[name]
            if type(layer).forward not in [kind.forward for kind in _LAYERS] or name in hooks:
                why = f"{name} belongs to a layer of your own"
            elif owners[id(weight)] > 1:
                why = f"{name} is used by several layers"
            elif layer.max_norm is not None or layer.sparse:
                why = f"{name} has max_norm or sparse set"
            else:
                found.append(Table(name, begin, *shape))
        begin += size
    return ([], why) if why else (found, "")


def _owners(module: nn.Module) -> dict[int, int]:
    """In how many places each parameter is used."""
    counts: dict[int, int] = {}
    for part in module.modules():
        for parameter in part._parameters.values():
            counts[id(parameter)] = counts.get(id(parameter), 0) + 1
    return counts


def _gradients(module: nn.Module, x: Any) -> tuple[Tensor, dict[str, Tensor | None]]:
    output: Tensor = forward(module, x)
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(output.square().mean(), list(named.values()), allow_unused=True)
    return output.detach(), dict(zip(named, found, strict=True))

"""What a model is given and what it gives: rows of several named tensors in, logits or a loss of its own out.

Models of transformers take `input_ids`, `attention_mask` and `labels` by name, and return an object with
`.logits` and, where they were given labels, `.loss`. Where a model gives its own loss, that one is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fedhpo.core.errors import InputError

#: Makes one batch of rows, as the data collators of transformers and `torch.utils.data.default_collate` do.
Collate = Callable[[list[Any]], Any]
MASK, LABELS = "attention_mask", "labels"


class Answer(NamedTuple):
    """What a model gives where that is no tensor: its scores, its own mean loss over the batch, or both."""

    logits: Tensor | None
    loss: Tensor | None


class Batch:
    """Rows of several named tensors, cut and put in order as one."""

    ndim = 1

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        self.named = dict(named)

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, rows: slice) -> Batch:
        return self._each(lambda tensor: tensor[rows])

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for i in range(len(self)):
            row = {name: tensor[i] for name, tensor in self.named.items()}
            yield _unpadded(row)

    @property
    def _first(self) -> Tensor:
        return next(iter(self.named.values()))

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._first.device

    @property
    def shape(self) -> str:
        """For messages: the shape of each."""
        return ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in self.named.items())

    @property
    def dtype(self) -> str:
        """For messages."""
        return "torch.named"

    def is_floating_point(self) -> bool:
        """It is not one tensor of numbers."""
        return False

    def index_select(self, dimension: int, order: Tensor) -> Batch:
        """These rows, in this order."""
        return self._each(lambda tensor: tensor.index_select(dimension, order))

    def split(self, size: int) -> list[Batch]:
        """Batches of so many rows, without the columns that are padding in all rows of a batch."""
        return [trimmed(self[begin : begin + size]) for begin in range(0, len(self), size)]

    def clone(self) -> Batch:
        """In memory of its own."""
        return self._each(torch.clone)

    def _each(self, do: Callable[[Tensor], Tensor]) -> Batch:
        return Batch({name: do(tensor) for name, tensor in self.named.items()})


def trimmed(batch: Batch) -> Batch:
    """A batch as long as its longest row: columns that are padding in all rows are left out."""
    mask = batch.named.get(MASK)
    if mask is None or mask.ndim != 2:
        return batch
    used = mask.any(0).nonzero()
    length = int(used[-1]) + 1 if len(used) else 1
    if length == mask.shape[1]:
        return batch
    return batch._each(lambda t: t[:, :length] if t.ndim > 1 and t.shape[1] == mask.shape[1] else t)


def _unpadded(row: dict[str, Tensor]) -> dict[str, Tensor]:
    mask = row.get(MASK)
    if mask is None or mask.ndim != 1:
        return row
    kept = mask.bool()
    return {name: t[kept] if t.ndim and t.shape[0] == len(mask) else t for name, t in row.items()}


def forward(module: nn.Module, x: Any) -> Any:
    """What the model says of a batch: a tensor, or an `Answer`; anything else as it is."""
    output = module(**x.named) if isinstance(x, Batch) else module(x)
    return output if isinstance(output, Tensor) else answered(output)


def answered(output: Any) -> Any:
    """Logits and loss of an object that has them; the logits alone where there is no loss."""
    get = output.get if isinstance(output, Mapping) else lambda name: getattr(output, name, None)
    logits, loss = get("logits"), get("loss")
    if isinstance(loss, Tensor):
        return Answer(logits if isinstance(logits, Tensor) else None, loss)
    return logits if isinstance(logits, Tensor) else output


def collated(collate: Collate | None, x: Any, y: Tensor) -> tuple[Any, Tensor]:
    """A batch as the user's function makes it of its rows; as it is without one."""
    if collate is None:
        return x, y
    if isinstance(x, Batch):
        rows: list[Any] = [
            row if LABELS in row else {**row, LABELS: own} for row, own in zip(x, y, strict=True)
        ]
    else:
        rows = list(zip(x, y, strict=True))
    made = collate(rows)
    if isinstance(made, Mapping):
        named = {str(name): value for name, value in made.items()}
        wrong = [name for name, value in named.items() if not isinstance(value, Tensor)]
        labels = named.get(LABELS)
        if not wrong and labels is not None:
            return Batch(named), labels
        found = f"{wrong[0]!r} as {type(named[wrong[0]]).__name__}" if wrong else "no 'labels'"
        raise InputError(f"collate gives {found}; a dict of tensors with 'labels' is needed")
    if isinstance(made, tuple | list) and len(made) == 2 and all(isinstance(one, Tensor) for one in made):
        return made[0], made[1]
    raise InputError(f"collate gives {type(made).__name__}; a dict of tensors, or a pair (x, y), is needed")

"""What a model's forward pass costs, counted once for each shape: arithmetic, memory traffic and calls.

Work is cut by these counts, never by a timing: the same work is cut alike on every machine. They become
seconds of a nominal core, which are right within a small factor; results depend on where the cuts are alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedhpo.core.streams import other_generators, torch_generator
from fedhpo.engine.outputs import forward

#: The nominal core: operations and bytes a second, and seconds that a call of a kernel takes at least.
_FLOPS, _BYTES, _CALL = 1e11, 1e10, 4e-6
#: Seconds that a row costs besides: it is gathered, and its loss taken.
_ROW = 4e-7
#: A training's forward and backward pass, in forward passes.
_PASSES = 3
#: Bytes that the largest output of a layer may have for a batch that is scored: it is to stay in a cache.
_CACHED = 8_000_000
LEAST_BATCH, MOST_BATCH = 32, 1024
#: Seconds of work that are worth a task, and tasks that each worker gets, so that none waits long.
GRAIN = 2e-3
_EACH = 4

_aten = torch.ops.aten


class Effort(NamedTuple):
    """Of a row: operations of products, bytes moved, and those of the largest output. Calls of a batch."""

    flops: float
    moved: float
    widest: float
    calls: int

    @property
    def row(self) -> float:
        """Nominal seconds of a row that is scored, in a large batch."""
        return self.flops / _FLOPS + self.moved / _BYTES + _ROW

    def scoring(self, rows: int) -> float:
        """Nominal seconds to score so many rows."""
        return rows * self.row + math.ceil(rows / self.batch) * self.calls * _CALL

    def training(self, samples: float, steps: int) -> float:
        """Nominal seconds of a local training."""
        return _PASSES * (samples * self.row + steps * self.calls * _CALL)

    @property
    def batch(self) -> int:
        """Rows that are scored at once: a power of two.

        >>> Effort(0, 0, widest=100_000, calls=1).batch, Effort(0, 0, widest=128, calls=1).batch
        (64, 1024)
        """
        most = _CACHED / max(self.widest, 1.0)
        return min(MOST_BATCH, max(LEAST_BATCH, 1 << int(math.log2(max(most, 1.0)))))

    def pieces(self, rows: int, workers: int, alike: int) -> list[tuple[int, int]]:
        """The parts, each of whole batches, that `rows` rows are scored in, with `alike` such works at once.

        Scores do not depend on them: batches are the same, and sums are put together in their order.

        >>> Effort(5e6, 0, 100_000, 1).pieces(2000, workers=2, alike=1)[:3]
        [(0, 256), (256, 512), (512, 768)]
        >>> Effort(5e6, 0, 100_000, 1).pieces(2000, workers=0, alike=1)
        [(0, 2000)]
        """
        batches = math.ceil(rows / self.batch)
        worth = int(self.scoring(rows) / GRAIN)
        count = max(1, min(batches, worth, math.ceil(_EACH * workers / alike)))
        bounds = [min(rows, batches * i // count * self.batch) for i in range(count)] + [rows]
        return [(begin, end) for begin, end in itertools.pairwise(bounds) if end > begin]


#: Where a forward pass cannot be counted: it fails, which training will tell, or runs on a GPU.
UNKNOWN = Effort(2e6, 2e4, _CACHED / 256, 50)


def effort_of(module: nn.Module, x: Any, rows: int) -> Effort:
    """What a forward pass of the module costs, by trying it on a few rows.

    >>> effort_of(nn.Linear(10, 4), torch.ones(8, 10), 8).flops
    80.0
    """
    counted = _Counter()
    training = module.training
    module.eval()
    try:
        # With gradients: without them some layers take a way of their own, as one call.
        with torch_generator(), other_generators(), torch.enable_grad(), counted:
            forward(module, x)
    except Exception:
        return UNKNOWN
    finally:
        module.train(training)
    return Effort(counted.flops / rows, counted.moved / rows, counted.widest / rows, counted.calls)


class _Counter(TorchDispatchMode):
    """Counts what the kernels of a pass do."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.moved = self.widest = 0.0
        self.calls = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's own switch. Nothing is compiled here, and its compiler takes a second to import."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        outputs = [one for one in _flat(found) if isinstance(one, Tensor)]
        if func.is_view or not outputs:
            return found
        products = _PRODUCTS.get(func.overloadpacket)
        if products is not None:
            self.flops += 2.0 * products(args, outputs[0])
        # Written here, and read by the next. Weights stay in a cache while a batch goes by.
        self.moved += 2.0 * sum(one.numel() * one.element_size() for one in outputs)
        self.widest = max(self.widest, outputs[0].numel() * outputs[0].element_size())
        self.calls += 1
        return found


def _flat(values: Any) -> list[Any]:
    if isinstance(values, tuple | list):
        return [one for value in values for one in _flat(value)]
    return [values]


def _matrix(first: int) -> Callable[[Any, Tensor], float]:
    """Products of a matrix product, whose left side is so many arguments in."""
    return lambda args, out: float(out.numel() * args[first].shape[-1])


def _convolution(args: Any, out: Tensor) -> float:
    weight, transposed = args[1], args[6]
    places = args[0] if transposed else out
    return float(places.numel() * weight[0].numel())


def _attention(args: Any, out: Tensor) -> float:
    return float(2 * args[0].numel() * args[1].shape[-2])


def _recurrent(args: Any, out: Tensor) -> float:
    steps = args[0].shape[0] * args[0].shape[1]
    return float(steps * (args[1].numel() + args[2].numel()))


_PRODUCTS: dict[Any, Callable[[Any, Tensor], float]] = {
    _aten.mm: _matrix(0),
    _aten.bmm: _matrix(0),
    _aten.addmm: _matrix(1),
    _aten.baddbmm: _matrix(1),
    _aten.mv: _matrix(0),
    _aten.convolution: _convolution,
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten.mkldnn_rnn_layer: _recurrent,
}

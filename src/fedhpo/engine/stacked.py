"""Many local trainings of a tiny model at once, stacked with `torch.func.vmap`.

Below some 100,000 parameters a single training spends its time on overheads, not arithmetic; stacked
runs share them. Runs of a stack have the same batch size; shorter ones are padded with samples of
weight zero, and leave the stack when they have taken all their steps.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedhpo.core.vectors import Vector
from fedhpo.engine import device as devices
from fedhpo.engine.built import mixes
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import dropout_layers, drops_out, train
from fedhpo.engine.loss import LossFunction, sample_losses, sample_sums
from fedhpo.engine.outputs import forward
from fedhpo.engine.score import ClientScores, per_client
from fedhpo.engine.stacked_chain import StackedChain, stacked_chain
from fedhpo.engine.tensors import hooked

#: Models of at most this many parameters are stacked on a CPU; with larger ones the weights of a
#: stack fall out of the cache, and a lean loop is faster.
MOST_PARAMETERS = 60_000
#: Convolutions of a stack cost more per sample than one by one, and save overheads only; with more outputs
#: than this in a batch they lose.
MOST_CONVOLVED = 32_000
#: A stack of fewer runs than this is not faster.
FEWEST_RUNS = 4
#: Runs of one stack: as many as keep its weights, gradients and momentum in some 2 MB.
STACK_BYTES = 2_000_000
MOST_RUNS = 32
#: Numbers of the inputs that are gathered at once, at most: some of a cache.
GATHERED = 250_000


def can_stack(
    model: FlatModel, x: Tensor, y: Tensor, loss: LossFunction | None = None, any_size: bool = False
) -> bool:
    """Whether runs of this model may be stacked: a fixed rule, never a timing, so that results repeat.

    Recurrent layers do not stack; layers that drop out, or keep statistics of a batch, would mix the
    runs; the mean over a batch of texts is over tokens, not samples. What else cannot be done (random
    numbers, parameters that the loss does not depend on, outputs or losses that depend on the rest of the
    batch) shows when a pair is tried on a few samples, and compared with the lean loop.
    """
    if (
        not model.parameters
        or model.frozen
        or not isinstance(x, Tensor)
        or model.size != model.trainable_size
        or not (any_size or model.size <= MOST_PARAMETERS)
        or drops_out(dropout_layers(model.module), None)
        or any(isinstance(part, nn.RNNBase | nn.RNNCellBase) for part in model.module.modules())
        or any(True for _ in model.module.buffers())
        or hooked(model.module)
        or (y.ndim > 1 and not y.is_floating_point())
    ):
        return False
    try:
        # In a copy: code that `vmap` cannot take may leave anything behind.
        trial = FlatModel(copy.deepcopy(model.module))
        mixed = any(mixes(trial.module, x, y, loss, training) for training in (True, False))
        trial.load(model.vector())
        return not mixed and _equals_lean(trial, x, y, loss)
    except Exception:
        return False


def _equals_lean(model: FlatModel, x: Tensor, y: Tensor, loss: LossFunction | None) -> bool:
    """Whether a step of a pair, one of them padded, and its scores are those of each alone."""
    start, half = torch.from_numpy(model.vector()), len(x) // 2
    device = model.parameters[0].device
    parts = [(x, y), (x[half:], y[half:])]
    h = Local(lr=1.0, weight_decay=0.1, batch_size=len(x))
    pair = Stack(model, start.repeat(2, 1).to(device), loss, None if loss else stacked_chain(model, x))
    scores = pair.score(*map(list, zip(*parts, strict=True)))
    pair.train([StackedRun(*part, h, np.random.default_rng(0)) for part in parts])
    sizes = [p.numel() for p in model.parameters]
    for row, part in enumerate(parts):
        model.load(start.numpy())
        with torch.no_grad():
            sums = torch.stack(sample_sums(forward(model.module.eval(), part[0]), part[1], loss)).double()
        own = float(sums[0].sum() / sums[2].sum())
        if not abs(scores.loss[row] - own) <= 1e-3 * abs(own) + 1e-5:
            return False
        train(model, *part, h, np.random.default_rng(0), loss)
        lean = torch.from_numpy(model.vector())
        most = float((lean - start).abs().max())
        for a, b, first in zip(
            pair.weights[row].cpu().split(sizes), lean.split(sizes), start.split(sizes), strict=True
        ):
            # A gradient that is zero but for rounding is measured by the others.
            allowed = 1e-3 * _largest(b - first) + 1e-5 * most + 1e-6 * _largest(first)
            if not _largest(a - b) <= allowed:
                return False
    return True


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def largest_batch(module: nn.Module, x: Tensor) -> float:
    """The largest batch that is worth stacking on a CPU: any, but for convolutions.

    >>> module = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Flatten(), nn.Linear(4 * 8 * 8, 2))
    >>> largest_batch(module, torch.zeros(2, 1, 8, 8)), largest_batch(nn.Linear(3, 2), torch.zeros(2, 3))
    (125, inf)
    """
    outputs = [0]

    def count(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        outputs.append(output.numel())

    hooks = [
        part.register_forward_hook(count)
        for part in module.modules()
        if isinstance(part, nn.modules.conv._ConvNd)
    ]
    with torch.no_grad():
        module.eval()(x)
    for hook in hooks:
        hook.remove()
    return MOST_CONVOLVED * len(x) // total if (total := sum(outputs)) else math.inf


def stack_size(parameters: int, device: str = "cpu") -> int:
    """How many runs of a model of this size go into one stack: by the cache on a CPU, by memory elsewhere.

    >>> stack_size(60_000), stack_size(60_000, "cuda"), stack_size(1_700_000, "cuda")
    (4, 256, 49)
    """
    most, room = (MOST_RUNS, STACK_BYTES) if device == "cpu" else (devices.MOST_RUNS, devices.STACK_BYTES)
    return max(FEWEST_RUNS, min(most, room // (12 * max(parameters, 1))))


@dataclass(frozen=True)
class StackedRun:
    """One local training of a stack: its data, hyperparameters and generator."""

    x: Tensor
    y: Tensor
    hyperparameters: Local
    rng: np.random.Generator


class Stack:
    """A stack of models with the same shape, one row of `weights` each."""

    def __init__(
        self,
        model: FlatModel,
        weights: Tensor,
        loss: LossFunction | None = None,
        chain: StackedChain | None = None,
    ) -> None:
        self.weights = weights
        self._chain = chain
        self._model = model
        self._loss = loss
        self._forward = torch.func.vmap(self._call)
        self._mode(training=False)

    def _mode(self, training: bool) -> None:
        """Train or score; dropout layers, whose rate is 0 in a stack, are passed by."""
        self._model.module.train(training)
        for part, _ in dropout_layers(self._model.module):
            part.eval()

    def _call(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        output: Tensor = torch.func.functional_call(self._model.module, parameters, (x,))
        return output

    def _parameters(self, rows: int) -> dict[str, Tensor]:
        named, offset = {}, 0
        for name, tensor in self._model.trainable.items():
            part = self.weights[:rows, offset : offset + tensor.numel()]
            named[name] = part.reshape(rows, *tensor.shape)
            offset += tensor.numel()
        return named

    def forward(self, x: Tensor) -> Tensor:
        """Each model's output for its own inputs."""
        return self._forward(self._parameters(len(x)), x)

    def train(self, runs: Sequence[StackedRun]) -> None:
        """Train every model of the stack, in place; runs are ordered longest first."""
        self._mode(training=True)
        device = self.weights.device
        index, weight, steps = _batches(runs)
        index, weight = index.to(device), weight.to(device)
        x, y = _padded([run.x for run in runs]), _padded([run.y for run in runs])
        # Where a run's row lies among those of all runs.
        index += torch.arange(len(runs), device=device)[:, None, None] * x.shape[1]
        batches = _Batches(x.flatten(0, 1), y.flatten(0, 1), index, weight)
        h = [run.hyperparameters for run in runs]
        start = self.weights.clone() if any(one.prox for one in h) else None
        velocity = torch.zeros_like(self.weights) if any(one.momentum for one in h) else None
        lr, momentum, decay, prox = (
            torch.tensor([[getattr(one, name)] for one in h], dtype=torch.float32, device=device)
            for name in ("lr", "momentum", "weight_decay", "prox")
        )
        decays = any(one.weight_decay for one in h)
        for active, first, end in _segments(steps):
            now, rate = self.weights[:active], lr[:active]
            gradients = self._gradient if self._chain is None else self._chain.on(now).gradient
            for batch in batches.between(active, first, end):
                gradient = gradients(*batch)
                if decays:
                    gradient.addcmul_(now, decay[:active])
                if start is not None:
                    gradient.addcmul_(now - start[:active], prox[:active])
                if velocity is not None:
                    gradient = velocity[:active].mul_(momentum[:active]).add_(gradient)
                now.addcmul_(gradient, rate, value=-1)

    def _gradient(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """Of the sum of the samples' losses, each times its weight; a row for each model."""
        parameters = {k: p.detach().requires_grad_() for k, p in self._parameters(len(x)).items()}
        output = self._forward(parameters, x)
        losses = sample_losses(output.flatten(0, 1), y.flatten(0, 1), self._loss)
        gradients = torch.autograd.grad((losses * weight.flatten()).sum(), list(parameters.values()))
        return torch.cat([g.reshape(len(x), -1) for g in gradients], 1)

    def score(self, xs: list[Tensor], ys: list[Tensor]) -> ClientScores:
        """Score each model of the stack on its own rows."""
        self._mode(training=False)
        sizes = np.array([len(y) for y in ys])
        longest = int(sizes.max(initial=0))
        if longest == 0:
            return per_client(np.empty((3, 0)), sizes)
        x, y = _padded(xs), _padded(ys)
        with torch.no_grad():
            output = self.forward(x)
            sums = torch.stack(sample_sums(output.flatten(0, 1), y.flatten(0, 1), self._loss))
        own = (torch.arange(longest)[None] < torch.from_numpy(sizes)[:, None]).flatten()
        return per_client(sums.cpu()[:, own].double().numpy(), sizes)


def _batches(runs: Sequence[StackedRun]) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
    """Row indices (run, step, sample), the weight of each sample, and each run's number of steps."""
    size = runs[0].hyperparameters.batch_size
    width = min(size, max(len(run.x) for run in runs))
    steps = np.array([run.hyperparameters.steps(len(run.x)) for run in runs])
    index = np.zeros((len(runs), int(steps[0]), width), np.int64)
    weight = np.zeros(index.shape, np.float32)
    for i, run in enumerate(runs):
        rows, epochs, per_epoch = len(run.x), run.hyperparameters.epochs, math.ceil(len(run.x) / size)
        # The rows of an epoch in their order, batch after batch; only the last batch may be smaller.
        of_epochs = index[i, : epochs * per_epoch].reshape(epochs, -1)
        for epoch in range(epochs):
            of_epochs[epoch, :rows] = run.rng.permutation(rows)
        shares = weight[i, : epochs * per_epoch].reshape(epochs, -1)
        whole = (per_epoch - 1) * size
        shares[:, :whole] = 1 / size
        shares[:, whole:rows] = 1 / (rows - whole)
    return torch.from_numpy(index), torch.from_numpy(weight), steps


def _segments(steps: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """How many runs are active from which step to which, given each run's steps, longest first.

    >>> _segments(np.array([5, 3, 3]))
    [(3, 0, 3), (1, 3, 5)]
    """
    found = []
    first = 0
    for end in sorted({int(count) for count in steps} - {0}):
        found.append((int((steps >= end).sum()), first, end))
        first = end
    return found


@dataclass(frozen=True)
class _Batches:
    """The rows of all runs, and which of them make the batch of each run and step."""

    x: Tensor
    y: Tensor
    index: Tensor
    weight: Tensor

    def between(self, active: int, first: int, end: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Inputs, targets and weights of the first runs, step by step; several steps are gathered at once."""
        width, features = self.index.shape[2], math.prod(self.x.shape[1:])
        together = max(1, GATHERED // (active * width * max(features, 1)))
        for begin in range(first, end, together):
            steps = slice(begin, min(begin + together, end))
            index, weight = (
                part[:active, steps].transpose(0, 1).clone(memory_format=torch.contiguous_format)
                for part in (self.index, self.weight)
            )
            x, y = (part.index_select(0, index.flatten()) for part in (self.x, self.y))
            yield from zip(x.unflatten(0, index.shape), y.unflatten(0, index.shape), weight, strict=True)


def _padded(tensors: list[Tensor]) -> Tensor:
    longest = max(len(t) for t in tensors)
    out = tensors[0].new_zeros((len(tensors), longest, *tensors[0].shape[1:]))
    for i, tensor in enumerate(tensors):
        out[i, : len(tensor)] = tensor
    return out


def stacks(sizes: Sequence[tuple[int, int]], parameters: int, device: str = "cpu") -> list[list[int]]:
    """Deal runs, given as (batch size, steps), into stacks; runs in none of them train alone.

    Stacks follow the work alone: the same runs make the same stacks on any number of workers.

    >>> stacks([(8, 5), (8, 9), (16, 1), (8, 5), (8, 7)], parameters=1000)
    [[1, 4, 0, 3]]
    """
    most = stack_size(parameters, device)
    found = []
    for batch in sorted({size for size, _ in sizes}):
        members = sorted((i for i, s in enumerate(sizes) if s[0] == batch), key=lambda i: (-sizes[i][1], i))
        count = math.ceil(len(members) / most)
        # Of about the same size; full ones and a rest where that would leave all of them too small.
        bounds = [len(members) * i // count for i in range(count + 1)] if count else []
        if count and len(members) // count < FEWEST_RUNS:
            bounds = [*range(0, len(members), most), len(members)]
        chunks = [members[a:b] for a, b in itertools.pairwise(bounds)]
        found += [chunk for chunk in chunks if len(chunk) >= FEWEST_RUNS]
    return found


def stack_weights(starts: Sequence[Vector]) -> Tensor:
    """Start vectors as the rows of a stack."""
    return torch.from_numpy(np.stack(starts))

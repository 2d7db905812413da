"""One step of an optimiser after another, over all parameters of a model, in fused kernels of torch.

The rules are those of `torch.optim.SGD`, `Adam` and `AdamW`, without the objects: a client's optimiser lives
for one round. The proximal term of FedProx (Li et al., 2020) is part of the gradient; their sum is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward

from fedhpo.core.errors import InputError
from fedhpo.engine.hyperparameters import ADAM, SGD, Local
from fedhpo.engine.tensors import dense

Tensors = Sequence[Tensor]


class Steps:
    """Takes gradients from losses, and steps along them."""

    def __init__(self, named: Mapping[str, Tensor], h: Local) -> None:
        self._names, self._parameters, self._h = list(named), list(named.values()), h
        self._anchors = [p.detach().clone() for p in self._parameters] if h.prox else []
        self._rule: _SGD | _Adam = (
            _SGD(self._parameters, h) if h.optimiser == SGD else _Adam(self._parameters, h)
        )
        # The fused kernels on a CPU walk through memory and know nothing of strides: parameter, gradient and
        # memory must lie there alike and without gaps. Gradients do so thanks to `backward`, memories where
        # the parameter has no gaps.
        self._strides = [p.stride() for p in self._parameters] if all(map(dense, self._parameters)) else None
        self._forget()

    def _forget(self) -> None:
        for p in self._parameters:
            p.grad = None

    def backward(self, loss: Tensor) -> None:
        """What `loss.backward()` does, without most of its checks: a tenth of a small model's step.

        Gradients go to `.grad`. Unlike `torch.autograd.grad` PyTorch then copies a gradient that has
        other strides than its parameter, or that is also the gradient of another parameter.
        """
        if not loss.is_floating_point():
            raise InputError(f"the loss must be a real number, not {loss.dtype}")
        one = torch.ones((), dtype=loss.dtype, device=loss.device)
        _engine_run_backward((loss,), (one,), False, False, (), allow_unreachable=True, accumulate_grad=True)

    def take(self) -> None:
        """One step; parameters that the losses do not depend on stay, as in PyTorch's optimisers."""
        gradients = [p.grad for p in self._parameters]
        found = [g for g in gradients if g is not None]
        used = None
        if len(found) < len(gradients):
            used = [i for i, g in enumerate(gradients) if g is not None]
        if found:
            try:
                with torch.no_grad():
                    self._move(found, used)
            except NotImplementedError:  # the fused kernels have no sparse form
                self._refuse_sparse()
                raise
        self._forget()

    def _move(self, gradients: list[Tensor], used: list[int] | None) -> None:
        h, parameters = self._h, _those(self._parameters, used)
        if self._anchors:
            self._refuse_sparse()
            # Not in place: two gradients may be views of the same memory.
            gradients = list(torch._foreach_add(gradients, parameters, alpha=h.prox))
            torch._foreach_add_(gradients, _those(self._anchors, used), alpha=-h.prox)
        if h.max_grad_norm is not None:
            self._refuse_sparse()
            norm = torch.nn.utils.get_total_norm(gradients)
            scale = torch.clamp(h.max_grad_norm / (norm + 1e-6), max=1.0)
            gradients = list(torch._foreach_mul(gradients, scale))
        # The strides are looked at in every step: a model's own code may put another tensor in a
        # parameter's place (`p.data = ...`).
        if self._strides is None or [p.stride() for p in self._parameters] != self._strides:
            self._refuse_sparse()
            self._rule.plain(parameters, gradients, used)
        else:
            self._rule.fused(parameters, gradients, used)

    def _refuse_sparse(self) -> None:
        for name, p in zip(self._names, self._parameters, strict=True):
            if p.grad is not None and p.grad.layout != torch.strided:
                raise InputError(
                    f"the gradient of the model's {name} is sparse; fedhpo trains with dense gradients: "
                    "build the layer with sparse=False"
                )


def _those(tensors: list[Tensor], used: list[int] | None) -> list[Tensor]:
    return tensors if used is None or not tensors else [tensors[i] for i in used]


class _SGD:
    def __init__(self, parameters: Tensors, h: Local) -> None:
        self._h = h
        self._velocities = [torch.zeros_like(p.detach()) for p in parameters] if h.momentum else []

    def fused(self, parameters: list[Tensor], gradients: list[Tensor], used: list[int] | None) -> None:
        h = self._h
        torch._fused_sgd_(
            parameters,
            gradients,
            _those(self._velocities, used),
            weight_decay=h.weight_decay,
            momentum=h.momentum,
            lr=h.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # velocities begin at zero
        )

    def plain(self, parameters: list[Tensor], gradients: list[Tensor], used: list[int] | None) -> None:
        """The same, tensor by tensor, for any layout in memory."""
        h, velocities = self._h, _those(self._velocities, used)
        for i, (p, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            direction = gradient.add(p, alpha=h.weight_decay) if h.weight_decay else gradient
            if velocities:
                direction = velocities[i].mul_(h.momentum).add_(direction)
            p.add_(direction, alpha=-h.lr)


class _Adam:
    """Adam (Kingma and Ba, 2015), and with decoupled decay AdamW (Loshchilov and Hutter, 2019)."""

    def __init__(self, parameters: Tensors, h: Local) -> None:
        self._h = h
        self._means, self._squares = ([torch.zeros_like(p.detach()) for p in parameters] for _ in range(2))
        self._counts = [torch.zeros((), device=p.device) for p in parameters]

    def fused(self, parameters: list[Tensor], gradients: list[Tensor], used: list[int] | None) -> None:
        h, counts = self._h, _those(self._counts, used)
        torch._foreach_add_(counts, 1)
        kernel = torch._fused_adam_ if h.optimiser == ADAM else torch._fused_adamw_
        kernel(
            parameters,
            gradients,
            _those(self._means, used),
            _those(self._squares, used),
            [],
            counts,
            lr=h.lr,
            beta1=h.beta1,
            beta2=h.beta2,
            weight_decay=h.weight_decay,
            eps=h.eps,
            amsgrad=False,
            maximize=False,
        )

    def plain(self, parameters: list[Tensor], gradients: list[Tensor], used: list[int] | None) -> None:
        """The same, tensor by tensor, for any layout in memory."""
        h = self._h
        memories = (_those(one, used) for one in (self._means, self._squares, self._counts))
        for p, gradient, mean, square, count in zip(parameters, gradients, *memories, strict=True):
            direction = gradient
            if h.optimiser == ADAM and h.weight_decay:
                direction = gradient.add(p, alpha=h.weight_decay)
            elif h.weight_decay:
                p.mul_(1 - h.lr * h.weight_decay)
            taken = int(count.add_(1))
            mean.lerp_(direction, 1 - h.beta1)
            square.mul_(h.beta2).addcmul_(direction, direction, value=1 - h.beta2)
            root = (square.sqrt() / math.sqrt(1 - h.beta2**taken)).add_(h.eps)
            p.addcdiv_(mean, root, value=-h.lr / (1 - h.beta1**taken))

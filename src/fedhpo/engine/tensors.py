"""What the engine asks of a model's tensors: real numbers in float32, each in memory of its own.

Frozen parameters may have any type: nothing computes with them but the model itself.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedhpo.core.errors import InputError


def check_tensors(module: nn.Module) -> None:
    """Refuse parameters and buffers that would be trained, averaged or sent wrongly.

    >>> check_tensors(nn.Linear(3, 2).double())
    Traceback (most recent call last):
    ...
    fedhpo.InputError: the model's weight is torch.float64; fedhpo trains in torch.float32: call ...
    """
    partly = any(not p.requires_grad for p in module.parameters())
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            raise InputError(
                f"the model's {name} has no shape yet (a lazy layer): give the layer its input size, or pass "
                "one batch through the model in the function that builds it"
            )
        if tensor.layout != torch.strided:
            raise InputError(
                f"the model's {name} is {tensor.layout}; fedhpo trains dense tensors: to_dense()"
            )
        if partly and not tensor.requires_grad:
            continue
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise InputError(
                f"the model's {name} is {tensor.dtype}; fedhpo trains in torch.float32: "
                "call .float() on the model"
                + (", or on what is trained of it: frozen parameters may have any type" if partly else "")
            )
        if tensor.is_complex() and isinstance(tensor, nn.Parameter):
            raise InputError(
                f"the model's {name} is {tensor.dtype}; fedhpo trains real numbers (torch.float32): keep "
                "torch.view_as_real(parameter) as the parameter, and call torch.view_as_complex in forward"
            )
    refuse_shared_memory(module)


def refuse_shared_memory(module: nn.Module) -> None:
    """Refuse a trainable parameter whose numbers are also those of another tensor of the model.

    One parameter used in two places is one tensor, and fine; copies of the model, which every training
    needs, keep that. They do not keep it that two tensors lie in the same memory.

    >>> first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    >>> second.weight = first.weight
    >>> refuse_shared_memory(nn.Sequential(first, second))
    >>> second.weight = nn.Parameter(first.weight.data)
    >>> refuse_shared_memory(nn.Sequential(first, second))
    Traceback (most recent call last):
    ...
    fedhpo.InputError: the model's 0.weight and 1.weight are two tensors in the same memory: ...
    """
    found = [(name, t) for name, t in [*module.named_parameters(), *module.named_buffers()] if t.numel()]
    for name, tensor in found:
        if tensor.requires_grad and not dense(tensor) and not _apart(tensor):
            raise InputError(
                f"several numbers of the model's {name} lie in the same memory (expand?): call .clone() on it"
            )
    found.sort(key=lambda one: one[1].data_ptr())
    end, last = -1, ("", torch.empty(0))
    for name, tensor in found:
        begin = tensor.data_ptr()
        if (
            begin < end
            and (tensor.requires_grad or last[1].requires_grad)
            and ((dense(tensor) and dense(last[1])) or not _apart(tensor, last[1]))
        ):
            raise InputError(
                f"the model's {last[0]} and {name} are two tensors in the same memory: to use one parameter "
                "in two places, assign the parameter itself (second.weight = first.weight)"
            )
        if begin + _span(tensor) > end:
            end, last = begin + _span(tensor), (name, tensor)


def _span(tensor: Tensor) -> int:
    """Bytes from a tensor's first number to the end of its last."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _apart(*tensors: Tensor) -> bool:
    """Whether no two numbers of these tensors lie in the same place."""
    places = []
    for tensor in tensors:
        where = np.array([tensor.data_ptr()])
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            if size > 1 and not stride:
                return False
            where = np.add.outer(where, np.arange(size) * stride * tensor.element_size())
        places.append(where.ravel())
    everywhere = np.concatenate(places)
    return len(np.unique(everywhere)) == len(everywhere)


def hooked(module: nn.Module) -> list[str]:
    """Names of the parameters that have hooks on their gradients; copies of a parameter do not have them."""
    return [
        name
        for name, p in module.named_parameters()
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None)
    ]


def own_memory(module: nn.Module) -> None:
    """Give every tensor memory of its own: `Embedding.from_pretrained` would train what it is given."""
    for tensor in [*module.parameters(), *module.buffers()]:
        tensor.data = tensor.data.clone()


def dense(tensor: Tensor) -> bool:
    """Whether a tensor's numbers lie in memory without gaps and overlaps, in whatever order.

    >>> square = torch.zeros(3, 4)
    >>> dense(square.T), dense(square[:, :2]), dense(square[:1].expand(3, 4))
    (True, False, False)
    """
    expected = 1
    for stride, size in sorted(
        (stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1
    ):
        if stride != expected:
            return False
        expected *= size
    return True


def alike(first: Tensor, second: Tensor) -> bool:
    """Whether two ways to compute a tensor gave the same, but for rounding; NaN is the same as NaN.

    >>> alike(torch.tensor([1.0, torch.nan]), torch.tensor([1.00001, torch.nan]))
    True
    """
    if first.shape != second.shape:
        return False
    sizes = [t.detach().abs() for t in (first, second) if t.numel()]
    most = max((float(t.nan_to_num(0.0, posinf=0.0).max()) for t in sizes), default=0.0)
    return torch.allclose(first, second, rtol=0, atol=1e-4 * most, equal_nan=True)

"""What to write instead, for what goes wrong when a model meets its first batch."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from torch import Tensor, nn

from fedhpo.core.user_code import in_words
from fedhpo.engine.task import PreflightError


def refused(
    what: str, instead: str, error: BaseException | None = None, module: nn.Module | None = None
) -> PreflightError:
    """What is wrong, what the user's code raised and where, and what to write instead."""
    if error is not None:
        what += f"\n  {in_words(error, full_path=True)}{_layer(error.__traceback__, module)}"
    return PreflightError(what, instead)


def _layer(trace: TracebackType | None, module: nn.Module | None) -> str:
    """The innermost layer of the model that the exception came out of."""
    names = {} if module is None else {id(part): name for name, part in module.named_modules() if name}
    found = ""
    while trace is not None:
        part = trace.tb_frame.f_locals.get("self")
        if isinstance(part, nn.Module) and id(part) in names:
            shown = repr(part) if not list(part.children()) else type(part).__name__
            found = f", in the model's layer {names[id(part)]!r}: {shown}"
        trace = trace.tb_next
    return found


def shape_of(value: Any) -> str:
    """A model's output in words: `a tuple of (tensor (32, 10), NoneType)`."""
    if isinstance(value, Tensor):
        return f"tensor {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of ({', '.join(map(shape_of, value[:4]))})"
    if hasattr(value, "keys"):
        keys = [repr(key) for key in list(value.keys())[:6]]
        return f"a {type(value).__name__} with {', '.join(keys)}"
    return type(value).__name__


def forward_advice(error: BaseException, x: Tensor, tokens: tuple[int, int] | None = None) -> str:
    """How to make the model take a batch, by what its forward pass raised; empty if that says nothing."""
    said, sample = str(error), tuple(x.shape[1:])
    one = f"a row has shape {sample}"
    if "forward()" in said and "argument" in said:
        return "forward(self, x), which takes the batch of inputs alone; other arguments need defaults"
    if "out of range in self" in said:
        low, high = tokens or (int(x.min()), int(x.max()))
        return f"nn.Embedding({high + 1}, ...) or more rows: x holds tokens {low} to {high}"
    if "scalar type" in said or "same dtype" in said or "expected m1 and m2" in said:
        if not x.is_floating_point():
            return (
                "x as floats (x.astype('float32')) if these are numbers: integers along one axis are taken "
                "for tokens, and reach the model as int64"
            )
        return "x as integers (x.astype('int64'), one axis) if these are tokens: floats reach it as float32"
    if "more than 1 value per channel" in said:
        return "nn.GroupNorm in place of BatchNorm, which cannot train on a batch of one row"
    if "same device" in said:
        return "tensors that forward makes on the batch's device: torch.zeros(..., device=x.device)"
    if x.ndim == 2 and ("conv" in said or "3D" in said or "4D" in said):
        return f"x.view(len(x), channels, height, width) first in forward, or images as x: here {one}"
    shaped = ("shape", "size", "dimension", "channels", "mat1", "features")
    if any(word in said.lower() for word in shaped):
        flat = " (or x.flatten(1) first in forward)" if x.ndim > 2 else ""
        return f"a first layer that takes the data's rows{flat}: {one}, a batch {tuple(x.shape)}"
    return ""


def output_advice(output: Any) -> str:
    """How to return the one tensor that is wanted."""
    if isinstance(output, tuple | list):
        return "return output[0] in forward, the tensor of scores alone (nn.LSTM and nn.GRU give a tuple)"
    if hasattr(output, "keys"):
        key = "logits" if "logits" in list(output.keys()) else str(next(iter(output.keys()), "logits"))
        return f"return output[{key!r}] in forward, the tensor of scores alone"
    return "a forward that returns one tensor"


def loss_advice(loss: Any) -> str:
    """How to write a loss that gives one number per row."""
    if isinstance(loss, nn.Module) and hasattr(loss, "reduction"):
        weight = "weight=..., " if getattr(loss, "weight", None) is not None else ""
        return f"loss=nn.{type(loss).__name__}({weight}reduction='none')"
    return (
        "a loss(output, target) that returns one loss per row, as torch's losses do with reduction='none'; "
        "fedhpo takes the mean"
    )

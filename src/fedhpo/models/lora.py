"""LoRA (Hu et al., 2022): a frozen base, and for some of its linear maps a trained change of low rank.

What a trial trains, sends and keeps are the changes: the base is the same for all (`fedhpo.engine.frozen`).
The arithmetic is that of the package peft, which is not needed here.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
import operator
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown, whole_number

#: Every linear map of the base.
ALL = "all"


class AdaptedLinear(nn.Module):
    """A frozen linear map plus `alpha / rank` times `up @ down`, of which the second starts at zero."""

    def __init__(self, base: nn.Module, rank: int, alpha: float, dropout: float, down: Tensor) -> None:
        super().__init__()
        self.base = base
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Parameter(down)
        self.up = nn.Parameter(torch.zeros(_sizes(base)[1], rank))
        self.scale = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        """The base's output and the change."""
        kept: Tensor = self.base(x)
        change = F.linear(F.linear(self.dropout(x.float()), self.down), self.up)
        return kept + (self.scale * change).to(kept.dtype)

    def extra_repr(self) -> str:
        """Rank and scale: part of the model's fingerprint."""
        return f"rank={self.down.shape[0]}, scale={self.scale:g}"


@dataclass(frozen=True, eq=False)
class LoRA:
    """Builds a base with adapters: a model for `fedhpo.simulate`, whose hyperparameters are those of LoRA.

    `base` is a module, or a function that builds one with the same weights in every call. The hyperparameters
    of the scope `model`:

    - `rank`: of each change.
    - `alpha`: a change is scaled by `alpha / rank`; a number, or a formula of the rank, such as "2 * rank".
    - `dropout`: the rate in front of the changes.
    - `targets`: endings of the names of the linear maps that are adapted, separated by commas or in a list,
      or "all".
    - `freeze_down`: leave the first factor as it was drawn, the same in all trials, and train the second
      (FFA-LoRA, Sun et al., 2024): half of the traffic, and averaging then is exact.
    - `heads`: endings of the names of modules that are trained whole, as the head of a classifier.

    >>> base = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> model = LoRA(base)(rank=2, targets="0")
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['0.down', '0.up']
    >>> float(model[0].scale)
    2.0
    """

    base: nn.Module | Callable[[], nn.Module]

    def __call__(
        self,
        rank: int = 8,
        alpha: float | str = "2 * rank",
        dropout: float = 0.0,
        targets: str | Sequence[str] = ALL,
        freeze_down: bool = False,
        heads: str = "",
    ) -> nn.Module:
        """The base with fresh adapters."""
        whole_number("model.rank", rank)
        scale = tied("model.alpha", alpha, rank=rank)
        base = copy.deepcopy(self.base) if isinstance(self.base, nn.Module) else self.base()
        if not isinstance(base, nn.Module):
            raise InputError(f"LoRA: base must be a torch.nn.Module or build one, not {shown(base)}")
        base.requires_grad_(False)
        for name in _chosen(base, heads, "heads") if heads else ():
            base.get_submodule(name).requires_grad_(True)
        maps = {name: part for name, part in base.named_modules() if _is_linear(part)}
        for name in _adapted(maps, targets):
            down = _drawn(name, rank, _sizes(maps[name])[0], fixed=freeze_down)
            _put(base, name, AdaptedLinear(maps[name], rank, scale, dropout, down))
            base.get_submodule(name).get_parameter("down").requires_grad_(not freeze_down)
        return base


def _is_linear(part: nn.Module) -> bool:
    """A linear map, or the transposed one of GPT-2 (`transformers.pytorch_utils.Conv1D`)."""
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"


def _sizes(base: nn.Module) -> tuple[int, int]:
    """Numbers in and out of a linear map."""
    out, inside = base.get_parameter("weight").shape
    return (inside, out) if isinstance(base, nn.Linear) else (out, inside)


def _drawn(name: str, rank: int, size: int, fixed: bool) -> Tensor:
    """The first factor, as `nn.Linear` draws its weight; the same for all seeds if it is fixed."""
    bound = 1 / math.sqrt(size)
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode())) if fixed else None
    return torch.empty(rank, size).uniform_(-bound, bound, generator=generator)


def _adapted(maps: dict[str, nn.Module], targets: str | Sequence[str]) -> list[str]:
    if isinstance(targets, list | tuple) and all(isinstance(one, str) for one in targets):
        targets = ",".join(targets)
    if not isinstance(targets, str) or not targets:
        raise InputError(f"model.targets must be endings of names, or {ALL!r}, not {shown(targets)}")
    if targets == ALL:
        return list(maps)
    found: dict[str, None] = {}
    for ending in _endings(targets):
        fitting = [name for name in maps if name == ending or name.endswith(f".{ending}")]
        if not fitting:
            known = sorted({name.rpartition(".")[2] for name in maps})
            raise InputError(
                f"model.targets = {targets!r}: no linear map's name ends with {ending!r}; their last parts "
                f"are {', '.join(known)}"
            )
        found |= dict.fromkeys(fitting)
    return list(found)


def _chosen(base: nn.Module, names: str, key: str) -> Iterator[str]:
    for ending in _endings(names):
        fitting = [name for name, _ in base.named_modules() if name == ending or name.endswith(f".{ending}")]
        if not fitting:
            raise InputError(f"model.{key} = {names!r}: no module's name ends with {ending!r}")
        yield from fitting


def _endings(names: str) -> list[str]:
    return [one.strip() for one in names.split(",") if one.strip()]


def _put(base: nn.Module, name: str, part: nn.Module) -> None:
    path, _, own = name.rpartition(".")
    setattr(base.get_submodule(path), own, part)


_OPERATORS: dict[type[Any], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def with_formulas(factory: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters of a model in which formulas of others are numbers, for a builder of any model.

    A text is a formula if its names are numbers among the hyperparameters, and the builder does not declare a
    text there.

    >>> with_formulas(dict, {"rank": 4, "alpha": "2 * rank", "targets": "q_proj,v_proj"})
    {'rank': 4, 'alpha': 8, 'targets': 'q_proj,v_proj'}
    """
    numbers = {
        name: value
        for name, value in given.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    texts = [name for name, value in given.items() if isinstance(value, str) and _names(value) & set(numbers)]
    found = dict(given)
    for name in texts:
        if _names(given[name]) <= set(numbers) and not _declares_text(factory, name):
            found[name] = tied(f"model.{name}", given[name], **numbers)
    return found


def _names(text: str) -> set[str]:
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        parts = ast.walk(ast.parse(text, mode="eval"))
        return {node.id for node in parts if isinstance(node, ast.Name)} - {"sqrt"}
    return set()


def _declares_text(factory: Callable[..., Any], name: str) -> bool:
    with suppress(TypeError, ValueError):
        parameter = inspect.signature(factory).parameters.get(name)
        if parameter is not None:
            return isinstance(parameter.default, str) or parameter.annotation in (str, "str")
    return False


def tied(key: str, value: float | str, **names: float) -> float:
    """A number, or one that a formula of others gives: `+`, `-`, `*`, `/`, `**`, `sqrt(...)` and brackets.

    >>> tied("alpha", 16, rank=4), tied("alpha", "2 * rank", rank=4), tied("alpha", "8 * sqrt(rank)", rank=4)
    (16, 8, 16.0)
    >>> tied("alpha", "2 * ranks", rank=4)
    Traceback (most recent call last):
    ...
    fedhpo.InputError: alpha = '2 * ranks': 'ranks' is not known; a formula is made of rank, numbers, \
+ - * / ** and sqrt(...)
    """
    if not isinstance(value, str):
        found: Any = value
    else:
        what = f"a formula is made of {', '.join(names)}, numbers, + - * / ** and sqrt(...)"
        try:
            found = _value(ast.parse(value, mode="eval").body, names)
        except (SyntaxError, ValueError, ArithmeticError, RecursionError) as error:
            raise InputError(f"{key} = {value!r}: {error}; {what}") from None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
        raise InputError(f"{key} = {value!r} must be a number above 0, or a formula that gives one")
    return found


def _value(node: ast.expr, names: dict[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise ValueError(f"{name!r} is not known")
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = _value(left, names), _value(right, names)
            if isinstance(op, ast.Pow) and abs(second) > 8:
                raise ValueError("powers go up to 8")
            return _OPERATORS[type(op)](first, second)
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner], keywords=[]):
            return math.sqrt(_value(inner, names))
    raise ValueError("it is not understood")

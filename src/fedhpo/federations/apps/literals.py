"""Arguments that an app writes in its code, such as `"task:AdamW.lr"`: given another value while it runs.

A name is `module:callable.argument`: a module of the app's package (or of an installed one, such as
`torch.optim`), a function or class as the module calls it, and one of its arguments. The value is bound by
signature at each call from that module. A class stays the same class: its `__init__` is what is replaced.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.federations.apps.app_file import AppFile

#: How many callers are looked at.
_NEAR = 6


def is_literal(name: str) -> bool:
    """Whether a hyperparameter's name is that of an argument in the app's code.

    >>> is_literal("task:AdamW.lr"), is_literal("learning-rate")
    (True, False)
    """
    module, colon, rest = name.partition(":")
    return bool(colon and module and "." in rest)


@dataclass(frozen=True)
class Literal:
    """A name, taken apart."""

    module: str
    path: tuple[str, ...]
    argument: str

    @classmethod
    def of(cls, name: str, app: AppFile | None = None) -> Literal:
        """From its name; with an app, its modules may be named without the package before them."""
        module, _, rest = name.partition(":")
        *path, argument = rest.split(".")
        if app is not None:
            module = app.module(module)
        return cls(module, tuple(path), argument)

    @property
    def name(self) -> str:
        """The name in full."""
        return f"{self.module}:{'.'.join(self.path)}.{self.argument}"


class _Patch:
    """What stands in the place of a function while it is bound."""

    def __init__(self, literal: Literal, value: Any, seen: set[str], name: str) -> None:
        self._literal, self._value, self._seen, self._name = literal, value, seen, name
        if literal.module.partition(".")[0] in sys.stdlib_module_names:
            raise InputError(f"{name}: arguments of Python's own modules cannot be tuned")
        try:
            module = importlib.import_module(literal.module)
        except ImportError as error:
            raise InputError(f"{name}: the module {literal.module!r} cannot be imported: {error}") from None
        self._owner: Any = None
        self._target: Any = module
        for part in literal.path:
            self._owner = self._target
            if not hasattr(self._target, part):
                known = [key for key, one in vars(self._target).items() if callable(one)]
                raise InputError(f"{name}: {unknown_name(f'name in {literal.module}', part, known)}")
            self._target = getattr(self._target, part)
        # Of a library's class that the app's module calls, only the calls from there are meant.
        origin = str(getattr(self._target, "__module__", None)).partition(".")[0]
        self._only_there = not _is_library(module) and origin != literal.module.partition(".")[0]
        self._check()

    def _check(self) -> None:
        self._function = self._target.__init__ if inspect.isclass(self._target) else self._target
        try:
            parameters = inspect.signature(self._function).parameters
        except (TypeError, ValueError):
            raise InputError(
                f"{self._name}: {'.'.join(self._literal.path)} has no signature that Python can read"
            ) from None
        anything = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        if self._literal.argument not in parameters and not anything:
            known = [name for name in parameters if name != "self"]
            what = f"argument of {'.'.join(self._literal.path)}"
            raise InputError(f"{self._name}: {unknown_name(what, self._literal.argument, known)}")

    def _bound(self) -> Any:
        original, module = self._function, self._literal.module
        signature = inspect.signature(original)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._only_there and not _called_from(module):
                return original(*args, **kwargs)
            bound = signature.bind_partial(*args, **kwargs)
            argument = self._literal.argument
            if argument in signature.parameters:
                bound.arguments[argument] = self._value
            else:
                [rest] = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
                bound.arguments.setdefault(rest, {})[argument] = self._value
            self._seen.add(self._name)
            return original(*bound.args, **bound.kwargs)

        return call

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """While this lasts, the argument has the value."""
        call = self._bound()
        places: list[tuple[Any, str, Any]]
        if inspect.isclass(self._target):
            places = [(self._target, "__init__", self._target.__dict__.get("__init__"))]
        elif inspect.ismodule(self._owner):
            # A function of the app's may have been imported elsewhere, under another name.
            places = [
                (module, key, self._target)
                for module in list(sys.modules.values())
                if isinstance(module, ModuleType) and not _is_library(module)
                for key, one in list(vars(module).items())
                if one is self._target
            ]
            places.append((self._owner, self._literal.path[-1], self._target))
        else:
            places = [(self._owner, self._literal.path[-1], self._target)]
        try:
            for owner, key, _ in places:
                setattr(owner, key, call)
            yield
        finally:
            for owner, key, before in places:
                if before is None:
                    delattr(owner, key)
                else:
                    setattr(owner, key, before)


def _is_library(module: ModuleType) -> bool:
    """Whether a module is installed or Python's own rather than an app's."""
    top = module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None) or ""
    return top in sys.stdlib_module_names or "site-packages" in file or top == "fedhpo"


def _called_from(module: str) -> bool:
    """Whether one of the nearest callers is in a module; a metaclass may stand between."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") == module:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def bound(values: Mapping[str, Any], seen: set[str] | None = None) -> Iterator[None]:
    """While this lasts, calls of the named functions and classes have these arguments.

    `seen` gets the names that were called.
    """
    with contextlib.ExitStack() as stack:
        for name, value in values.items():
            literal = Literal.of(name)
            if not isinstance(value, int | float | str | bool):
                raise InputError(f"{name} = {value!r}: must be a number, a text or a truth value")
            stack.enter_context(_Patch(literal, value, set() if seen is None else seen, name).applied())
        yield


def check_literal(name: str) -> None:
    """Refuse a name that leads nowhere; the app's modules can be imported here."""
    _Patch(Literal.of(name), None, set(), name)

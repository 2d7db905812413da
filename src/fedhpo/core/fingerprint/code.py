"""Fingerprints of code: a function, class or callable object by its name, its source, and what it uses.

Source is compared as a syntax tree, so comments, docstrings and layout may change. Where there is no source
(typed at a prompt), and for lambdas, it is the bytecode. Followed are closures, defaults, arguments of
`functools.partial`, attributes of objects, and the functions, classes and plain values of the user's own
modules that the code names. Installed libraries, and fedhpo itself, count by name.
"""

from __future__ import annotations

import ast
import dis
import enum
import functools
import hashlib
import inspect
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fedhpo.core.fingerprint.arrays import array_digest
from fedhpo.core.fingerprint.installed import is_installed
from fedhpo.core.moved import kept_name

_PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, range, type(...))
#: Code that calls one of these, or stores items, may change a list or a mapping: these are not compared then.
_MUTATING = {"append", "extend", "insert", "add", "update", "pop", "popitem", "setdefault", "clear", "remove"}
_STORING = {"STORE_SUBSCR", "DELETE_SUBSCR"}


def code_of(thing: Any) -> dict[str, Any]:
    """The fingerprint of a callable: its name, and for each part that it is made of a digest or the value.

    >>> code_of(functools.partial(int, base=3))
    {'name': 'partial of int', 'parts': {'argument base': '3', 'code': 'builtins.int'}}
    """
    walk = Walk()
    walk.visit(thing, "")
    return walk.fingerprint(name_of(thing))


def name_of(thing: Any) -> str:
    """How messages call a callable."""
    if isinstance(thing, functools.partial):
        return f"partial of {name_of(thing.func)}"
    if isinstance(thing, MethodType):
        return f"{name_of(thing.__self__)}.{thing.__name__}"
    own = kept_name(thing)[1] or getattr(thing, "__name__", None)
    return own if isinstance(own, str) else kept_name(type(thing))[1]


class Walk:
    """Collects the parts of a callable; `path` says which one is meant, "" is the callable itself."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._seen: set[int] = set()

    def fingerprint(self, name: str) -> dict[str, Any]:
        """All that was visited, under one name."""
        return {"name": name, "parts": dict(sorted(self.parts.items()))}

    def visit(self, thing: Any, path: str) -> None:
        """A callable, its parts, and what it uses."""
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        try:
            self._visit(thing, path)
        except Exception as error:  # an object may do anything when it is looked at
            warnings.warn(
                f"the code of {name_of(thing)} cannot be read ({type(error).__name__}: {error}): a run will "
                "not notice when it changes",
                stacklevel=2,
            )

    def _visit(self, thing: Any, path: str) -> None:
        if isinstance(thing, functools.partial):
            self.visit(thing.func, path)
            arguments = {str(place): value for place, value in enumerate(thing.args)} | thing.keywords
            self._values({f"argument {name}": value for name, value in arguments.items()}, path)
        elif isinstance(thing, MethodType):
            self.visit(thing.__func__, path)
            self._object(thing.__self__, path)
        elif isinstance(thing, type):
            self._class(thing, path)
        elif isinstance(thing, FunctionType):
            self._function(thing, path)
        elif isinstance(thing, BuiltinFunctionType) or not _has_state(thing):
            self._note(path, "code", _full_name(thing))
        else:
            self._object(thing, path)

    def _function(self, function: FunctionType, path: str) -> None:
        if _installed(function):
            self._note(path, "code", _full_name(function))
            return
        wrapped = inspect.unwrap(function)
        self._note(path, "code", _source(wrapped) or _bytecode(wrapped.__code__))
        if function is not wrapped:  # a decorator: its code counts too
            self._note(path, "wrapper", _bytecode(function.__code__))
        for one in {function, wrapped}:
            self._used(one, path)

    def _used(self, function: FunctionType, path: str) -> None:
        """Closure, defaults, and what the code names of the user's own modules."""
        codes = list(_codes(function.__code__))
        stored = {
            str(step.argval)
            for code in codes
            for step in dis.get_instructions(code)
            if step.opname in ("STORE_GLOBAL", "STORE_DEREF")
        }
        fixed = not any(
            _MUTATING & set(code.co_names)
            or any(step.opname in _STORING for step in dis.get_instructions(code))
            for code in codes
        )
        names = {name for code in codes for name in code.co_names}
        found: dict[str, Any] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name not in stored and name != "__class__":
                found[name] = _content(cell)
        for name in names & function.__globals__.keys() - stored:
            value = function.__globals__[name]
            if isinstance(value, ModuleType):
                if not _installed(value):
                    own = names & vars(value).keys()
                    found |= {f"{name}.{inner}": vars(value)[inner] for inner in own}
            else:
                found[name] = value
        self._values(found, path, fixed=fixed)
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        defaults = {f"default {p.name}": p.default for p in parameters if p.default is not p.empty}
        self._values(defaults, path, fixed=fixed)

    def _class(self, kind: type, path: str) -> None:
        if _installed(kind):
            self._note(path, "code", _full_name(kind))
            return
        source = _source(kind)
        if source is not None:
            self._note(path, "code", source)
        for base in kind.__bases__:
            if base is not object and not _installed(base):
                self.visit(base, _inner(path, f"base {base.__name__}"))
        for name, member in sorted(vars(kind).items()):
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType):
                if source is None:
                    self._note(path, f"code of {name}", _bytecode(function.__code__))
                self._used(function, path)
            elif source is None and isinstance(member, _PLAIN) and not name.startswith("__"):
                self._note(path, name, repr(member))

    def _object(self, thing: Any, path: str) -> None:
        """An object by its class and attributes, but for those that its own methods change."""
        kind = type(thing)
        self.visit(kind, path)
        if kind.__module__.partition(".")[0] == "fedhpo":  # what matters of ours is in the study
            return
        changed = {
            str(step.argval)
            for base in kind.__mro__
            if not _installed(base)
            for name, member in vars(base).items()
            if isinstance(member, FunctionType) and name not in ("__init__", "__post_init__", "__new__")
            for step in dis.get_instructions(member.__code__)
            if step.opname in ("STORE_ATTR", "DELETE_ATTR")
        }
        state = {name: value for name, value in getattr(thing, "__dict__", {}).items() if name not in changed}
        if _is_module(thing):  # its weights are compared as such, see `fedhpo.engine.fingerprint`
            from fedhpo.core.fingerprint.tensors import weights_digest

            self._note(path, "weights", weights_digest(thing))
            state = {name: value for name, value in state.items() if not name.startswith("_")}
            for name, part in thing.named_children():
                self.visit(part, _inner(path, name))
        self._values({f"attribute {name}": value for name, value in state.items()}, path)

    def _values(self, values: Mapping[str, Any], path: str, *, fixed: bool = True) -> None:
        for name, value in sorted(values.items()):
            text = _shown(value, fixed=fixed)
            if text is not None:
                self._note(path, name, text)
            elif callable(value) and value is not _EMPTY:
                self.visit(value, _inner(path, name))

    def _note(self, path: str, what: str, text: str) -> None:
        self.parts[_inner(path, what)] = text


_EMPTY = object()


def _inner(path: str, name: str) -> str:
    return f"{path}: {name}" if path else name


def _has_state(thing: Any) -> bool:
    return bool(getattr(thing, "__dict__", None)) or not _installed(type(thing))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _EMPTY


def _shown(value: Any, *, fixed: bool) -> str | None:
    """A plain value, or a digest of arrays and tensors; None of what is neither."""
    if isinstance(value, _PLAIN):
        text = repr(value)
        return text if len(text) <= 80 else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        return array_digest(np.asarray(value))
    if _is_tensor(value):
        from fedhpo.core.fingerprint.tensors import tensor_digest

        return tensor_digest(value)
    if isinstance(value, tuple | frozenset) or (fixed and isinstance(value, list | set)):
        parts = [_shown(part, fixed=fixed) for part in value]
        ordered = sorted(map(str, parts)) if isinstance(value, set | frozenset) else list(map(str, parts))
        return None if None in parts else f"{type(value).__name__}({', '.join(ordered)})"
    if fixed and isinstance(value, dict):
        pairs = {str(key): _shown(part, fixed=fixed) for key, part in value.items()}
        return None if None in pairs.values() else str(dict(sorted(pairs.items())))
    return None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def _source(thing: Any) -> str | None:
    """A digest of the source as a syntax tree without docstrings; None where there is none, or a lambda."""
    if getattr(thing, "__name__", "") == "<lambda>":
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and isinstance(body, list):
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                body[0] = ast.Expr(ast.Constant(None))
    text = ast.dump(tree, annotate_fields=False)
    return "source " + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _bytecode(code: CodeType) -> str:
    """A digest of the bytecode, which depends on Python's version."""
    digest = hashlib.blake2b(digest_size=16)
    for one in _codes(code):
        plain = [
            repr(c) if not isinstance(c, frozenset) else repr(sorted(map(repr, c))) for c in one.co_consts
        ]
        constants = [
            text for c, text in zip(one.co_consts, plain, strict=True) if not isinstance(c, CodeType)
        ]
        shape = (one.co_argcount, one.co_kwonlyargcount, one.co_flags, one.co_names, one.co_freevars)
        digest.update(one.co_code + repr((constants, shape)).encode())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"bytecode of Python {version} {digest.hexdigest()}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _full_name(thing: Any) -> str:
    return f"{kept_name(thing)[0] or kept_name(type(thing))[0]}.{name_of(thing)}"


def _installed(thing: Any) -> bool:
    """Whether this is of Python, an installed library or fedhpo, rather than the user's own."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    module = sys.modules.get(name or "")
    if name == "__main__" or module is None:
        return name == "builtins" or (module is None and name is None)
    file = getattr(module, "__file__", None)
    if file is None:
        return name in sys.builtin_module_names or name == "builtins"
    return is_installed(Path(file))

"""Users' own functions and classes, by name: `package.module:function`."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError, unknown_name


def is_own(name: str) -> bool:
    """Whether a name refers to a user's own object rather than one of ours."""
    return ":" in name


def import_object(name: str, key: str, *, called: bool = True) -> Any:
    """The object that `package.module:name` names; the working directory is searched too.

    It must be a function or a class unless it is not to be `called`.

    >>> import_object("math:sqrt", "model.name")(4)
    2.0
    >>> import_object("math:squrt", "model.name")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: model.name = 'math:squrt': unknown name in module math 'squrt' (did you mean \
'sqrt'?); known: ...
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise InputError(f"{key} = {name!r}: must be 'package.module:name'")
    found: Any = _module(module_name, f"{key} = {name!r}")
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            known = [key for key, value in vars(found).items() if key[0] != "_" and callable(value)]
            error = unknown_name(f"name in module {module_name}", part, known)
            raise InputError(f"{key} = {name!r}: {error}") from None
    if called and not callable(found):
        raise InputError(f"{key} = {name!r}: must be a function or a class, found {type(found).__name__}")
    return found


def _module(name: str, prefix: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        # At the end: a file of the user's that is called like a library must not hide it.
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"{prefix}: module {name} cannot be imported: {error}") from error
    except Exception as error:
        raise InputError(f"{prefix}: module {name} cannot be imported: {_what(error)}") from error


def call_own(function: Callable[..., Any], arguments: dict[str, Any], prefix: str) -> Any:
    """Call a user's function; what it raises is a mistake in it, told with file and line."""
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise InputError(f"{prefix}: {error}; its arguments: {inspect.signature(function)}") from None
    except ValueError:  # a builtin without a signature
        pass
    try:
        return function(**arguments)
    except InputError as error:
        raise InputError(f"{prefix}: {error}") from error
    except Exception as error:
        raise InputError(f"{prefix}: it raised {_what(error)}") from error


def _what(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):
        place = f"{Path(error.filename or '?').name}, line {error.lineno}"
        return f"SyntaxError: {error.msg} ({place})"
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"
    return f"{type(error).__name__}: {error} ({place})"

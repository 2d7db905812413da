"""Names of a package that are imported when they are used, since they need what may not be installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from fedhpo.core.errors import MissingExtraError


def lazy_names(package: str, homes: Mapping[str, str], needs: str, extra: str) -> Callable[[str], Any]:
    """A `__getattr__` for a package whose names live in the modules `homes`.

    Where a module cannot be imported because `needs` is not installed, the error names the extra.

    >>> find = lazy_names("fedhpo.some", {"sqrt": "math"}, "flwr", "flower")
    >>> find("sqrt")(9.0)
    3.0
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            home = importlib.import_module(homes[name])
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != needs:
                raise
            raise MissingExtraError(needs, extra) from error
        return getattr(home, name)

    return find

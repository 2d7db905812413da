"""A run config that knows which of its keys were looked up, so that nobody tunes what is never read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class ReadConfig(dict[str, Any]):
    """A dict that notes what is read; `everything` is whether it was walked through as a whole.

    >>> config = ReadConfig({"lr": 0.1, "epochs": 2})
    >>> config["lr"], config.get("momentum")
    (0.1, None)
    >>> config.seen, config.everything
    ({'lr'}, False)
    >>> dict(config.items()) and config.everything
    True
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.seen: set[str] = set()
        self.everything = False

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict."""
        self._note(key)
        return super().get(key, default)

    def _note(self, key: str) -> None:
        if super().__contains__(key):
            self.seen.add(key)

    def __iter__(self) -> Iterator[str]:
        self.everything = True
        return super().__iter__()

    def keys(self) -> Any:
        """As of a dict."""
        self.everything = True
        return super().keys()

    def values(self) -> Any:
        """As of a dict."""
        self.everything = True
        return super().values()

    def items(self) -> Any:
        """As of a dict."""
        self.everything = True
        return super().items()

    def __deepcopy__(self, memo: Any) -> ReadConfig:
        return self  # a copy of what holds it looks up the same values, and is watched too

    def copy(self) -> dict[str, Any]:
        """As of a dict."""
        self.everything = True
        return super().copy()

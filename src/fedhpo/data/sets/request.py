"""What a loader is given: where the files are, how many clients are wanted, and the seed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream


@dataclass(frozen=True)
class Request:
    """One call of `load`, as far as it concerns a loader."""

    clients: int | None
    seed: int
    path: str | os.PathLike[str] | None = None

    def rng(self) -> np.random.Generator:
        """For samples that are drawn; dealing and splitting have streams of their own."""
        return stream(self.seed, "data set")

    def file(self, relative: str) -> Path:
        """A file of the data directory: `path` if given, else what FEDHPO_DATA names."""
        if self.path is not None and not isinstance(self.path, str | os.PathLike):
            raise InputError(f"path={self.path!r}; allowed: the directory that holds the data")
        directory = self.path or os.environ.get("FEDHPO_DATA")
        if not directory:
            raise InputError(
                f"{relative} is needed: set the environment variable FEDHPO_DATA to the directory "
                "that holds it, or give path=; docs/data.md says where it comes from"
            )
        file = Path(directory) / relative
        if not file.is_file():
            origin = "path" if self.path else "FEDHPO_DATA"
            raise InputError(f"{file} is missing ({origin} is {directory})")
        return file


def check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """An option must have one of a few values."""
    if value not in allowed:
        raise InputError(f"{name}={value!r}; allowed: {', '.join(repr(a) for a in allowed)}")

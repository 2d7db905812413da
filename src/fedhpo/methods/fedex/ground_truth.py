"""Ground truth: what each config reaches when it is trained alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core import jsonfile as _jsonfile
from fedhpo.core.errors import InputError
from fedhpo.core.jsonfile import of_format
from fedhpo.core.settings import check_settings, is_number, shown
from fedhpo.space.config import Config

#: The file in a run's directory that its report compares with.
FILE = "ground_truth.json"
#: Its name in versions before 0.3.
OLD_FILE = "truth.json"
_FORMAT = "fedhpo truth 1"


@dataclass(frozen=True)
class GroundTruth:
    """Client hyperparameters, each with the validation score of training with them alone; more is better.

    >>> truth = GroundTruth(({"lr": 0.1}, {"lr": 0.2}), (0.9, 0.8))
    >>> truth.of([{"lr": 0.2}, {"lr": 0.1}])
    [0.8, 0.9]
    """

    clients: tuple[Mapping[str, Any], ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        check_settings(self)
        clients = tuple(Config(client=client).client for client in self.clients)
        object.__setattr__(self, "clients", clients)
        if not all(map(is_number, self.values)):
            raise InputError(f"truth needs a finite value for each config, not {shown(self.values)}")
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        if len(clients) != len(self.values) or not np.isfinite(self.values).all():
            raise InputError(f"truth needs a finite value for each config, not {self.values}")

    def of(self, clients: Sequence[Mapping[str, Any]]) -> list[float] | None:
        """The values of these client hyperparameters; None if one of them was never trained alone."""
        known = dict(zip(self.clients, self.values, strict=True))
        wanted = [Config(client=client).client for client in clients]
        return [known[client] for client in wanted] if all(client in known for client in wanted) else None

    def save(self, path: str | Path) -> Path:
        """Write it as JSON; as `ground_truth.json` in a run's directory it is shown in the run's report."""
        clients = [Config(client=client).to_dict().get("client", {}) for client in self.clients]
        data = {"format": _FORMAT, "clients": clients, "values": list(self.values)}
        return _jsonfile.save(path, data)

    @classmethod
    def load(cls, path: str | Path) -> GroundTruth:
        """Read what `save` wrote."""
        data = of_format(_jsonfile.load(path, "ground truth"), _FORMAT, "ground truth", str(path))
        try:
            return cls(tuple(data["clients"]), tuple(data["values"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def of_run(cls, directory: Path) -> GroundTruth | None:
        """What was saved in a run's directory; None if nothing was."""
        found = [directory / name for name in (FILE, OLD_FILE) if (directory / name).is_file()]
        if found and found[0].is_symlink():
            raise InputError(f"{found[0]} is a link: a report reads the run's own files only")
        return cls.load(found[0]) if found else None

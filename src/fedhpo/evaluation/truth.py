"""Ground truth: what each config reaches when it is trained alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo import _jsonfile
from fedhpo._jsonfile import of_format
from fedhpo._settings import check_settings, shown
from fedhpo.config import Config
from fedhpo.data.partition import is_number
from fedhpo.errors import InputError

if TYPE_CHECKING:
    from fedhpo.federation.protocol import Federation
    from fedhpo.space import Space

#: The file in a run's directory that its report compares with.
FILE = "truth.json"
_FORMAT = "fedhpo truth 1"


@dataclass(frozen=True)
class Truth:
    """Client hyperparameters, each with the validation score of training with them alone; more is better.

    >>> truth = Truth(({"lr": 0.1}, {"lr": 0.2}), (0.9, 0.8))
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
        """Write it as JSON; as `truth.json` in a run's directory it is shown in the run's report."""
        clients = [Config(client=client).to_dict().get("client", {}) for client in self.clients]
        data = {"format": _FORMAT, "clients": clients, "values": list(self.values)}
        return _jsonfile.save(path, data)

    @classmethod
    def load(cls, path: str | Path) -> Truth:
        """Read what `save` wrote."""
        data = of_format(_jsonfile.load(path, "ground truth"), _FORMAT, "ground truth", str(path))
        try:
            return cls(tuple(data["clients"]), tuple(data["values"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: {error}") from None


def train_alone(
    federation: Federation,
    space: Space,
    clients: Sequence[Mapping[str, Any]],
    *,
    rounds: int,
    cohort: int,
    seed: int = 0,
    run: str | Path | None = None,
    callbacks: Sequence[Any] = (),
) -> Truth:
    """Train each of these client hyperparameters alone for `rounds`, all else by the space's defaults.

    With a `run` it can be resumed like any other. One that cannot be trained is worth as little as the
    worst of the others.

    >>> from fedhpo.space import Float, Space
    >>> from fedhpo.testing import ToyFederation
    >>> space = Space(client={"lr": Float(0.001, 10.0, log=True)})
    >>> toy = ToyFederation(noise=0.0)
    >>> truth = train_alone(toy, space, [{"lr": 0.1}, {"lr": 0.5}, {"lr": 5.0}], rounds=3, cohort=4)
    >>> truth.values == tuple(sorted(truth.values, reverse=True))
    True
    """
    from fedhpo.methods import Tuner
    from fedhpo.schedules import FixedLength
    from fedhpo.tuning import tune

    configs = [space.default().replace(client=client) for client in clients]
    result = tune(
        federation,
        _centred(space, configs[0]),
        Tuner(FixedLength(len(configs))),
        rounds=rounds,
        total=rounds * len(configs),
        cohort=cohort,
        seed=seed,
        run=run,
        enqueue=configs[1:],
        callbacks=callbacks,
    )
    if result.status != "finished":
        raise InputError(
            f"the ground truth is not complete: {result.facts['reason']}; call it again to go on"
        )
    scores = [np.nan if row["score"] is None else float(row["score"]) for row in result.facts["trials"]]
    worst = float(np.nanmin(scores))
    return Truth(tuple(clients), tuple(worst if np.isnan(score) else score for score in scores))


def _centred(space: Space, config: Config) -> Space:
    """The space with this config as its default, and so as trial 0."""
    from fedhpo.space import Space

    tables = space.to_dict()
    for name, value in config.to_dict().get("client", {}).items():
        if f"client.{name}" in space.hyperparameters:
            tables["client"][name]["default"] = value
    return Space.from_dict(tables)

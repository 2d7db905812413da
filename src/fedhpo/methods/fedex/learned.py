"""A learned policy: arms and what each is worth, to save, to sample from, to start another search with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core import jsonfile as _jsonfile
from fedhpo.core.errors import InputError
from fedhpo.core.jsonfile import of_format
from fedhpo.core.settings import check_settings, is_number
from fedhpo.protocol.federation import Floats
from fedhpo.space.config import Config

_FORMAT = "fedhpo policy 1"


@dataclass(frozen=True)
class LearnedPolicy:
    """Client hyperparameters (the arms) with log weights, of which only differences matter.

    >>> policy = LearnedPolicy(({"lr": 0.1}, {"lr": 0.3}), (0.0, -1.0))
    >>> policy.best
    {'lr': 0.1}
    >>> policy.weights.round(3).tolist()
    [0.731, 0.269]
    >>> LearnedPolicy.from_dict(policy.to_dict()) == policy
    True
    """

    arms: tuple[Mapping[str, Any], ...]
    log_weights: tuple[float, ...]

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.arms or len(self.arms) != len(self.log_weights):
            raise InputError(
                f"a policy needs at least one arm and as many log_weights, not {len(self.arms)} arms and "
                f"{len(self.log_weights)} log_weights"
            )
        if not all(map(is_number, self.log_weights)):
            raise InputError(f"log_weights must be finite numbers, not {list(self.log_weights)}")
        # Through a config, so that a value is the same before and after its way through JSON.
        arms = tuple(Config(client=arm).client for arm in self.arms)
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "log_weights", tuple(float(value) for value in self.log_weights))

    @classmethod
    def uniform(cls, arms: list[Mapping[str, Any]]) -> LearnedPolicy:
        """Arms of which nothing is known yet."""
        return cls(tuple(arms), (0.0,) * len(arms))

    @property
    def weights(self) -> Floats:
        """The distribution over the arms."""
        return softmax(np.array(self.log_weights))

    @property
    def best(self) -> Mapping[str, Any]:
        """The arm with most weight, the first of several: what to deploy."""
        return self.arms[int(np.argmax(self.log_weights))]

    def sample(self, count: int, rng: np.random.Generator) -> list[Mapping[str, Any]]:
        """Client hyperparameters for `count` clients, to go on training with."""
        return [self.arms[i] for i in rng.choice(len(self.arms), count, p=self.weights)]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        arms = [Config(client=arm).to_dict().get("client", {}) for arm in self.arms]
        return {"format": _FORMAT, "arms": arms, "log_weights": list(self.log_weights)}

    @classmethod
    def from_dict(cls, data: Any, where: str = "policy") -> LearnedPolicy:
        """The inverse of `to_dict`; `where` leads the error messages."""
        data = of_format(data, _FORMAT, "saved policy", where)
        try:
            return cls(tuple(data["arms"]), tuple(float(value) for value in data["log_weights"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: {error}") from None

    def save(self, path: str | Path) -> Path:
        """Write it as JSON."""
        return _jsonfile.save(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> LearnedPolicy:
        """Read what `save` wrote."""
        return cls.from_dict(_jsonfile.load(path, "policy"), str(path))


def softmax(log_weights: Floats) -> Floats:
    """Weights that add up to 1; a log weight of minus infinity is a weight of 0."""
    raised = np.exp(log_weights - log_weights.max())
    weights: Floats = raised / raised.sum()
    return weights

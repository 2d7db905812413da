"""A client policy of one's own that learns per client, its learning rate. Used from own_rates.toml.

A client whose training lowered the loss on its own validation rows takes larger steps the next time, another
one smaller steps. A resumed run learns it all again from the recorded reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.protocol.federation import AFTER, BEFORE, CLIENT_CONFIGS, SCORES_IN_ROUND, RoundReport
from fedhpo.protocol.sections import section, table


@dataclass
class Rates:
    """One trial's policy as it stands: a factor on the config's learning rate for each client."""

    client: Mapping[str, Any]
    policy: OwnRates
    factors: dict[int, float] = field(default_factory=dict)

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> list[dict[str, Any]]:
        """The client hyperparameters of each member of the cohort."""
        base = self.client["lr"]
        return [{**self.client, "lr": base * self.factors.get(client, 1.0)} for client in cohort]

    def learn(self, report: RoundReport) -> None:
        """Take in what came back; NaN is a client that has no validation rows, or did not reply."""
        better = report.loss_after < report.loss_before
        known = report.ok & ~np.isnan(report.loss_after)
        for client, improved in zip(report.cohort[known], better[known], strict=True):
            factor = self.factors.get(int(client), 1.0) * (self.policy.up if improved else self.policy.down)
            self.factors[int(client)] = float(np.clip(factor, 1 / self.policy.most, self.policy.most))

    def deployed(self, config: fh.Config) -> fh.Config:
        """The config to report: the one that the factors are on."""
        return config

    def history(self) -> dict[str, Any]:
        """What was learned, JSON-able, for result.json."""
        return {"factors": {str(client): factor for client, factor in sorted(self.factors.items())}}


@dataclass(frozen=True)
class OwnRates:
    """Each client's learning rate grows by `up` where training helped, and shrinks by `down` where not.

    It stays within a factor of `most` of the config's.
    """

    up: float = 1.1
    down: float = 0.7
    most: float = 4.0

    needs = frozenset({CLIENT_CONFIGS, SCORES_IN_ROUND})
    scores = (BEFORE, AFTER)

    def __post_init__(self) -> None:
        if not (0 < self.down < 1 < self.up and self.most >= 1):
            raise fh.InputError(f"down < 1 < up and most >= 1 must hold, not {self}")

    def begin(self, config: fh.Config, space: fh.Space, rng: np.random.Generator) -> Rates:
        """The policy of a fresh trial."""
        if "lr" not in config.client:
            raise fh.InputError("own_rates needs a client hyperparameter lr")
        return Rates(config.client, self)

    def sections(self, search: Any) -> list[dict[str, Any]]:
        """What the report shows of it."""
        best = search.leader()
        if best is None:
            return []
        text = f"Trial {best.number}: factors on its learning rate, {best.config.client['lr']:.3g}."
        rows = sorted(best.policy.factors.items(), key=lambda row: row[1])
        return [section("Learning rates by client", text, table(["client", "factor"], rows))]

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
        return {"name": "own_rates", **asdict(self)}

"""HPN: A. Cheng, Z. Wang, Y. Li and J. Cheng, *HPN: Personalized Federated Hyperparameter Optimization*,
arXiv:2304.05195, 2023.

A small network maps what is known of a client to its hyperparameters, near those of the trial's config. Each
member of a cohort trains with what the network says for it, plus noise. What made validation scores better
than usual becomes more likely: the rewards are FedEx's, so that the two can be compared, and the step is a
policy gradient. Not followed: the paper learns from many short trainings that are debiased afterwards; here
the network learns while the model trains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.methods.fedex.baseline import Baseline
from fedhpo.methods.fedex.scores import METRICS, Metric, member_scores
from fedhpo.methods.hpn.features import Features
from fedhpo.methods.hpn.network import Network
from fedhpo.protocol.federation import AFTER, BEFORE, CLIENT_CONFIGS, SCORES_IN_ROUND, Floats, RoundReport
from fedhpo.space import Choice, Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.search.search import Search


@dataclass(frozen=True)
class HPN:
    """HPN as a client policy: hyperparameters by client, from what is known of it.

    Parameters
    ----------
    radius
        How far they may be from the trial's config, as a share of each range. Choices, which have no order,
        stay as they are.
    hidden, rate, noise
        The network's hidden units, its first step size, and the deviation of what is tried around its output
        (1 is the whole `radius` or so), which falls by a cosine to a tenth.
    metric, difference, clip, gamma
        From which scores it learns; as in FedEx.
    until
        The share of a full training in which it learns. Then everybody gets what the network says, without
        noise.
    encodings
        What is known of each client, by its number: a list of numbers, such as a random projection of its
        data, made where the data is. By default the number of its training rows is used.

    Examples
    --------
    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True)})
    >>> state = HPN(rounds=10).begin(space.default(), space, np.random.default_rng(0))
    >>> state.of(7)
    {'lr': 0.1}
    """

    radius: float = 0.25
    hidden: int = 8
    rate: float = 0.05
    noise: float = 0.5
    metric: Metric = "loss"
    difference: bool = True
    clip: float | None = setting(10.0, metric="loss")
    gamma: float = 0.5
    until: float = 0.5
    encodings: Mapping[int, Sequence[float]] | None = None
    rounds: int | None = None

    #: It spends no rounds of its own before the search; see `prepare`.
    rounds_before = 0

    def __post_init__(self) -> None:
        check_settings(self)
        whole_number("hidden", self.hidden, least=1)
        for name, high in (("radius", 1.0), ("rate", math.inf), ("noise", math.inf), ("until", 1.0)):
            value = getattr(self, name)
            if not 0 < value <= high or not math.isfinite(value):
                allowed = "positive" if math.isinf(high) else f"in (0, {high:g}]"
                raise InputError(f"{name} must be a number {allowed}, not {value!r}")
        if not 0 <= self.gamma <= 1:
            raise InputError(f"gamma must lie in [0, 1], not {self.gamma!r}")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(f"clip must be a positive number, or left out, not {self.clip!r}")
        if self.metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, not {self.metric!r}")
        _ = Features(self.encodings)

    @property
    def needs(self) -> frozenset[str]:
        """A config for each client, and scores inside a round."""
        return frozenset({CLIENT_CONFIGS, SCORES_IN_ROUND})

    @property
    def scores(self) -> tuple[str, ...]:
        """Before training and after it."""
        return BEFORE, AFTER

    def prepare(self, search: Search) -> HPN:
        """The same policy, knowing how long a full training is."""
        return self if self.rounds is not None else replace(self, rounds=search.rounds)

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> HPNState:
        """A fresh network: everybody's output is the config's own client hyperparameters."""
        if self.rounds is None:
            raise InputError("rounds must be given: over how many rounds HPN's noise falls")
        return HPNState(self, self.rounds, config, space, rng)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        given = {str(client): list(row) for client, row in (self.encodings or {}).items()}
        return {"name": "hpn", **asdict(self), "encodings": given or None}


class HPNState:
    """One trial's network, and what is known of clients."""

    def __init__(
        self, settings: HPN, rounds: int, config: Config, space: Space, rng: np.random.Generator
    ) -> None:
        self._settings, self._rounds, self._config, self._space = settings, rounds, config, space
        values = config.flat()
        self._tuned = [
            dimension
            for dimension in space.plan
            if dimension.scope == "client"
            and dimension.name in values
            and not isinstance(dimension.hyperparameter, Choice)
        ]
        if not self._tuned:
            raise InputError("hpn has nothing to tune: the space has no client hyperparameter with an order")
        self._centre = np.array([d.hyperparameter.to_unit(values[d.name]) for d in self._tuned])
        self._features = Features(settings.encodings)
        self._network = Network(self._features.count, len(self._tuned), settings.hidden, rng)
        self._baseline = Baseline("skip", settings.gamma)
        self._spread: float | None = None
        self._drawn: tuple[Floats, Floats] | None = None
        self._learned = 0
        self._past: list[dict[str, Any]] = []

    # A round

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> list[Mapping[str, Any]]:
        """What the network says for each member, plus noise."""
        inputs = self._features.of(cohort)
        off = rng.normal(size=(len(cohort), len(self._tuned)))
        self._drawn = inputs, off
        return [self._client(row) for row in self._network(inputs) + self._noise * off]

    @property
    def _noise(self) -> float:
        """Falls by a cosine to a tenth over the rounds in which it learns, and is 0 afterwards."""
        last = max(1, round(self._settings.until * self._rounds))
        if self._learned >= last and self._settings.until < 1:
            return 0.0
        done = min(1.0, self._learned / last)
        return self._settings.noise * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)

    def learn(self, report: RoundReport) -> None:
        """One step up the policy gradient, by what the members that replied say."""
        if self._drawn is None:
            raise RuntimeError("learn was called before assign")
        (inputs, off), self._drawn = self._drawn, None
        self._features.see(report)
        settings, noise = self._settings, self._noise
        scores = member_scores(report, settings.metric, settings.difference, settings.clip)
        if scores is not None and noise:
            baseline = self._baseline.value(scores.pretrain)
            if baseline is not None:
                share = scores.size / scores.size.sum()
                gains = (baseline - scores.values) / self._scale(scores.values - baseline)
                # The gradient of a Gaussian's log density by its mean is (drawn - mean) / variance.
                outer = (share * gains)[:, None] * off[scores.members] / noise
                self._network.climb(inputs[scores.members], outer, settings.rate)
            self._baseline.add(scores.mean)
        self._learned += 1
        middle = self._client(self._network(np.zeros((1, self._features.count)))[0])
        self._past.append({"round": report.round, "client": dict(middle)})

    def _scale(self, gaps: Floats) -> float:
        """The usual size of a gap, so that the step does not depend on the unit of scores."""
        now = float(np.sqrt(np.mean(gaps**2)))
        self._spread = now if self._spread is None else 0.8 * self._spread + 0.2 * now
        return max(self._spread, 1e-12)

    # What comes of it

    def of(self, client: int) -> Mapping[str, Any]:
        """What the network says for a client."""
        return self._client(self._network(self._features.of([client]))[0])

    def _client(self, outputs: Floats) -> Mapping[str, Any]:
        units = np.clip(self._centre + self._settings.radius * np.tanh(outputs), 0.0, 1.0).tolist()
        found = dict(self._config.client)
        for dimension, unit, output in zip(self._tuned, units, outputs.tolist(), strict=True):
            if output:  # else as it is: the way through the unit interval may round
                found[dimension.name.split(".", 1)[1]] = dimension.hyperparameter.from_unit(unit)
        return found

    def deployed(self, config: Config) -> Config:
        """The config with what the network says for a client that is like the others."""
        return config.replace(client=self._client(self._network(np.zeros((1, self._features.count)))[0]))

    @property
    def learned(self) -> dict[str, Any]:
        """The network's weights."""
        return self._network.to_dict()

    def history(self) -> dict[str, Any]:
        """For each round what the network says for a client that is like the others; JSON-able."""
        return {"network": self._network.to_dict(), "rounds": self._past}

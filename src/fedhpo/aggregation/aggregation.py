"""How clients' updates are put together: a rule, how clients weigh, and what bounds a single one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.agreement_filter import agreement_filter
from fedhpo.aggregation.centred_clipping import centred_clipping
from fedhpo.aggregation.direction_filter import direction_filter
from fedhpo.aggregation.held import Updates, hostile_count, lengths_and_cosines
from fedhpo.aggregation.mean import StreamedMean
from fedhpo.aggregation.median import median
from fedhpo.aggregation.multi_krum import multi_krum
from fedhpo.aggregation.nearest_neighbour_mixing import mixed
from fedhpo.aggregation.norm_clipping import clip_scale, norm_clipping
from fedhpo.aggregation.own_rule import Rule, by_own_rule
from fedhpo.aggregation.server import refuse_lengths
from fedhpo.aggregation.sizes import WEIGHT_CAP
from fedhpo.aggregation.trimmed_mean import trimmed_mean
from fedhpo.core.claims import refuse, refuse_unhonoured, setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import check_settings, settings_of
from fedhpo.core.vectors import Vector


@dataclass(frozen=True)
class Aggregation:
    """How clients' updates are put together.

    `weighting` is "size" (training rows, as in FedAvg) or "uniform". `rule` is "mean", which needs memory for
    one update, or one that a few hostile clients cannot move far, which holds all updates of a round:

    - "median" and "trimmed_mean", by coordinate (Yin et al., 2018);
    - "norm_clipping": the mean of updates shortened to the median of their norms (Sun et al., 2019);
    - "centred_clipping", around the step of the round before (Karimireddy et al., 2021), with the radius
      `clip_norm`;
    - "multi_krum" (Blanchard et al., 2017);
    - "nnm": nearest-neighbour mixing, then the trimmed mean (Allouah et al., 2023);
    - "direction_filter": the mean of the updates that agree most with where most go; ours.
    - "agreement_filter": the mean without clients that pulled against most over all rounds so far; ours.

    `trim` is the share of the cohort that a rule guards against: "trimmed_mean" leaves it out at either end
    of every coordinate. All rules but "mean" and "norm_clipping" let every client count once.

    Any other rule is a user's own (`own`): see `fedhpo.aggregation.own_rule`.

    `clip_norm` shortens every update to at most that Euclidean norm first. `weight_cap` is how much a client
    may weigh, as a multiple of the cohort's median size; clipping bounds weights even if it is left out.
    """

    weighting: str = "size"
    rule: str = "mean"
    trim: float = setting(
        0.1, rule=("trimmed_mean", "multi_krum", "nnm", "direction_filter", "agreement_filter")
    )
    clip_norm: float | None = None
    weight_cap: float | None = None
    #: The rule of a user's own that `rule` names.
    own: Rule | None = None

    RULES: ClassVar[tuple[str, ...]] = (
        "mean",
        "median",
        "trimmed_mean",
        "norm_clipping",
        "centred_clipping",
        "multi_krum",
        "nnm",
        "direction_filter",
        "agreement_filter",
    )
    WEIGHTINGS: ClassVar[tuple[str, ...]] = ("size", "uniform")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.weighting not in self.WEIGHTINGS:
            raise unknown_name("weighting", self.weighting, self.WEIGHTINGS)
        if self.own is None and self.rule not in self.RULES:
            raise unknown_name("aggregation rule", self.rule, self.RULES)
        if not 0 <= self.trim < 0.5:
            raise InputError(f"trim must lie in [0, 0.5), not {self.trim!r}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InputError(f"clip_norm must be positive, not {self.clip_norm!r}")
        if self.weight_cap is not None and not self.weight_cap >= 1:
            raise InputError(f"weight_cap must be at least 1 (the median size), not {self.weight_cap!r}")

    @property
    def sums(self) -> bool:
        """Whether the weighted sum of updates, each clipped on its own, says all that the rule needs.

        >>> Aggregation().sums, Aggregation(clip_norm=1.0).sums, Aggregation(rule="median").sums
        (True, True, False)
        """
        return self.rule == "mean"

    def weight(self, size: int) -> float:
        """What the update of a client of so many rows counts."""
        return float(size) if self.weighting == "size" else 1.0

    @property
    def by_size(self) -> bool:
        """Whether a client's number of rows matters.

        >>> Aggregation().by_size, Aggregation(rule="median").by_size, Aggregation("uniform").by_size
        (True, False, False)
        """
        return self.weighting == "size" and not self.counts_once

    @property
    def counts_once(self) -> bool:
        """Whether the rule lets every client count once, whatever `weighting` says."""
        if self.own is not None:
            return not getattr(self.own, "by_size", False)
        return self.rule not in ("mean", "norm_clipping")

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able, and what a rule of one's own is made of."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "own"}
        if self.own is not None:
            found["own"] = settings_of(self.own) | {"code": code_of(type(self.own))}
        return found

    @property
    def cap(self) -> float | None:
        """How many median sizes of its cohort a client weighs at most; None if nothing bounds it.

        >>> Aggregation().cap, Aggregation(clip_norm=1.0).cap, Aggregation(weight_cap=3.0).cap
        (None, 2.0, 3.0)
        """
        clips = self.clip_norm is not None or self.rule == "norm_clipping"
        return WEIGHT_CAP if self.weight_cap is None and clips else self.weight_cap

    @property
    def remembers(self) -> str | None:
        """The name of what the rule needs of the rounds before; None if nothing.

        >>> Aggregation(rule="centred_clipping").remembers, Aggregation().remembers
        ('centre', None)
        """
        return _REMEMBERED.get(self.rule)

    def start(
        self, memory: Mapping[str, Vector] | None = None, cohort: Sequence[int] | None = None
    ) -> Aggregate:
        """An aggregate of nothing yet; `memory` holds what a round before left, `cohort` its clients."""
        before = None if memory is None or self.remembers is None else memory.get(self.remembers)
        return Aggregate(self, before, cohort)


def refuse_beside(strategy: str | None, server: str, how: Aggregation, usual: Aggregation) -> None:
    """Refuse settings of an aggregation that do not count beside its rule, or beside a strategy.

    >>> refuse_beside(None, "fedavg", Aggregation(trim=0.2), Aggregation())
    Traceback (most recent call last):
    ...
    fedhpo.InputError: trim = 0.2: counts only where aggregation is 'trimmed_mean', 'multi_krum', 'nnm', \
'direction_filter' or 'agreement_filter', and aggregation is 'mean': leave it out, or change that
    """
    if strategy is None:
        refuse_lengths(server, how.rule)
        refuse_unhonoured(how, given=_set_beside(how, usual), names={"rule": "aggregation"})
        return
    plain = Aggregation()
    for name, value, allowed in (
        ("server", server, ("fedavg",)),
        ("aggregation", how.rule, (usual.rule, plain.rule)),
        ("trim", how.trim, (usual.trim, plain.trim)),
        ("clip_norm", how.clip_norm, (None,)),
    ):
        if value not in allowed:
            refuse([f"{name} = {value!r}: has no effect beside strategy = {strategy!r}: leave it out"])


def _set_beside(how: Aggregation, usual: Aggregation) -> list[str]:
    """The fields that are neither the class' defaults nor those of what is usual."""
    return [f.name for f in fields(how) if getattr(how, f.name) not in (f.default, getattr(usual, f.name))]


#: What rules need of the rounds before, by rule: the step, or how well any two clients agreed.
_REMEMBERED = {"centred_clipping": "centre", "agreement_filter": "agreement"}


class Aggregate:
    """Updates added one by one, in an order that the caller keeps fixed; then their `mean`."""

    def __init__(
        self, how: Aggregation, before: Vector | None = None, cohort: Sequence[int] | None = None
    ) -> None:
        self._how, self._before, self._cohort = how, before, cohort
        #: What the rule needs in the next round, once there is a mean.
        self.memory: Mapping[str, Vector] = {}
        #: By member, the length of its update and its cosine with the mean, where the updates are held.
        self.shapes: dict[int, tuple[float, float]] = {}
        self._streamed = StreamedMean()
        self._kept: list[Vector] = []
        self._weights: list[float] = []
        self._members: list[int] = []

    def add(self, update: Vector, size: int, member: int = 0) -> None:
        """Add the update of a member of the cohort; the array is not kept."""
        how = self._how
        weight = how.weight(size)
        clips = how.clip_norm is not None and how.rule != "centred_clipping"
        scale = clip_scale(update, how.clip_norm) if clips and how.clip_norm is not None else 1.0
        if how.rule == "mean":
            self._streamed.add(update, weight, scale)
        else:
            self._kept.append(np.float32(scale) * update)
            self._weights.append(weight)
            self._members.append(member)

    def add_sum(self, total: Vector, weight: float) -> None:
        """Add a sum that somebody else took, as `Aggregation.sums` allows."""
        self._streamed.add_sum(total, weight)

    def add_part(self, add: Callable[[Vector], None], size: int, weight: float) -> None:
        """The same for a sum that `add` adds to a vector of `size` numbers."""
        self._streamed.add_part(add, size, weight)

    def mean(self) -> Vector:
        """The updates put together."""
        if self._how.rule == "mean":
            return self._streamed.value()
        if not self._kept:
            raise InputError("no update to put together")
        updates = np.stack(self._kept)
        found = self._by_rule(updates)
        lengths, cosines = lengths_and_cosines(updates, found)
        self.shapes = dict(zip(self._members, zip(lengths, cosines, strict=True), strict=True))
        if self._how.rule == "centred_clipping":
            self.memory = {"centre": found}
        return found

    def _by_rule(self, updates: Updates) -> Vector:
        how = self._how
        if how.own is not None:
            return by_own_rule(how.own, how.rule, updates, self._weights)
        hostile = hostile_count(how.trim, len(updates))
        if how.rule == "median":
            return median(updates)
        if how.rule == "norm_clipping":
            return norm_clipping(updates, self._weights)
        if how.rule == "centred_clipping":
            return centred_clipping(updates, self._before, how.clip_norm)
        if how.rule == "multi_krum":
            return multi_krum(updates, hostile)
        if how.rule == "direction_filter":
            return direction_filter(updates, hostile)
        if how.rule == "agreement_filter":
            found, agreement = agreement_filter(updates, hostile, self._clients(), self._before)
            self.memory = {"agreement": agreement}
            return found
        return trimmed_mean(mixed(updates, hostile) if how.rule == "nnm" else updates, hostile)

    def _clients(self) -> NDArray[np.int64]:
        """Who sent the updates; by place where that was not said."""
        if self._cohort is None:
            return np.arange(len(self._kept))
        return np.array([self._cohort[member] for member in self._members], np.int64)

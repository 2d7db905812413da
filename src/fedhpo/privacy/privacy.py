"""Private evaluation: what may leave the clients' scores, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint import code_of
from fedhpo.core.registry import Registry
from fedhpo.core.settings import check_settings, shown

if TYPE_CHECKING:
    from fedhpo.privacy.selection import Selection

Mechanism = Literal["laplace", "topk", "permute-and-flip", "repeated"]
#: Mechanisms, and whether they release values or only which trials are best.
MECHANISMS = {"laplace": True, "topk": False, "permute-and-flip": False, "repeated": False}
#: The one that is meant where none is named, and the method has no choice of its own.
DEFAULT = "laplace"

#: How releases are added up.
ACCOUNTING = ("rotation", "basic", "pld")


@dataclass(frozen=True)
class Privacy:
    """Differential privacy of what the method, the run and the result get to know of clients' scores.

    The whole run is `epsilon`-differentially private in the scores of any one client: were all scores of
    one client others, in every evaluation, no outcome would be more than `exp(epsilon)` times as likely.
    How many clients replied is taken as public. It says nothing of the models, which clients' training
    shapes and which are not private here.

    `m` is the most that the releases of the run weigh for one client; see `accounting`.

    `mechanism` is "laplace" where none is named, but for `auto`, which takes what has the least noise.

    - `mechanism = "laplace"` releases every score, with noise of scale `m / (epsilon x replies)`.
      Methods select by these values and by nothing else.
    - `"topk"` releases no score, only which trials of a rung go on: noise of scale
      `2 m k / (epsilon x replies)` on each score of a rung of which k go on. Samplers learn that a trial was
      kept (rank 0) or dropped (rank 1).
    - `"permute-and-flip"` and `"repeated"` choose from a rung with less noise, or noise of another kind;
      see `fedhpo.privacy.selection`.
    - `"package.module:Name"`, or `{ name = "package.module:Name", ... }` with settings, chooses in your own
      way: a dataclass that is called as these are. That it keeps its epsilon is your word;
      `fedhpo.testing.mechanism.MechanismSuite` tests it.

    In a choice a client counts each trial by its gap, `max(own score - own best, -gap)`, so that it moves a
    sum by `gap` at most, and the noise is so much less: `gap` is that window, by a fixed rule of epsilon and
    the clients asked where it is left out. Methods that score a rung more than once pool these scores into
    one choice. With `gap = 1` whole scores count, and every choice is made by one evaluation, as in versions
    before 0.3.0; see `fedhpo.privacy.gaps`.

    FedEx learns from noisy sums by arm, whatever the mechanism: a client's score in a round is part of one of
    them, and epsilon composes over the rounds that one client takes part in; see
    `fedhpo.search.private_rounds`. FedPop's exchange goes by fresh private evaluations. Other methods that
    learn from scores inside rounds are refused.

    `evaluations` is the number of releases to plan for: scores, or rungs from which some trials are chosen,
    and the rounds that one client replies to. If it is left out, a pass through the method without training
    counts them. The release that would overspend is refused.

    `release = "simulated"` draws noise from the run's seeded generator: repeatable, and no protection for
    real people. `"exact"` draws by OpenDP on a grid of whole numbers, safe against attacks on floating
    point; it needs `fedhpo[privacy]`.

    `accounting = "rotation"` lets cohorts follow each other through one fixed order of the clients, so that
    of M scores at S of N clients each, one client is part of `m = ceil(M S / N)` at most. `"basic"` draws
    clients anew and takes every client for part of every release: `m` is their number. `"pld"` is rotation
    with as little noise as dp-accounting's privacy loss distributions allow for (epsilon, `delta`), with a
    `delta` above 0.

    `budget` names a file that all runs over the same clients draw on, and `total` the epsilon that one client
    may spend in all of them; see `fedhpo.PrivacyLedger`. A run that would exceed it does not begin.

    `held_out` is the share of validation clients, by a public draw, that the search never asks. At the end
    they spend their epsilon on one release: the sum of their differences between the winner and the user's
    own config, clipped to ±`clip`, and its second moment; see `fedhpo.search.comparison`. Where that would be
    fewer than 10 clients, all take part in both, and this share of epsilon is kept for the comparison. With 0
    nothing is compared. Differences between scores in [0, 1] are never clipped by a `clip` of 1; a smaller
    one means less noise, and a gain that counts no client for more than that.

    Where fewer than `minimum` clients (a number, or a share of those asked) reply, nothing is released;
    it is paid for all the same. Test scores are not private and stay out of the result, unless
    `report_test` asks for them; they are then marked.

    >>> Privacy(epsilon=1.0).releases_values
    True
    """

    epsilon: float
    evaluations: int | None = None
    mechanism: Literal["laplace", "topk", "permute-and-flip", "repeated"] | str | Mapping[str, Any] | None = (
        None
    )
    release: Literal["simulated", "exact"] = "simulated"
    accounting: Literal["rotation", "basic", "pld"] = "rotation"
    delta: float = 0.0
    minimum: int | float = 0.5
    report_test: bool = False
    budget: str | None = None
    total: float | None = None
    held_out: float = 0.2
    clip: float = 1.0
    gap: float | None = None

    def __post_init__(self) -> None:
        given: Any = self.budget
        if isinstance(given, PathLike):  # a path, or a ledger
            object.__setattr__(self, "budget", fspath(given))
        check_settings(self)
        if not 0 < self.epsilon < math.inf:
            raise InputError(f"epsilon must be a positive number, not {self.epsilon!r}")
        if self.evaluations is not None and self.evaluations < 1:
            raise InputError(f"evaluations must be at least 1, not {self.evaluations}")
        self.own_selection()  # refuses what nobody knows
        if self.release not in ("simulated", "exact"):
            raise unknown_name("release", self.release, ["simulated", "exact"])
        if self.accounting not in ACCOUNTING:
            raise unknown_name("accounting", self.accounting, ACCOUNTING)
        if self.accounting == "pld" and not 0 < self.delta < 1:
            raise InputError(f"accounting = 'pld' needs a delta in (0, 1), not {self.delta!r}")
        if self.accounting != "pld" and self.delta:
            raise InputError(
                f"delta = {self.delta!r} needs accounting = 'pld'; with {self.accounting!r} it is 0"
            )
        share = isinstance(self.minimum, float)
        if not self.minimum > 0 or (share and self.minimum > 1):
            raise InputError(
                f"minimum must be a number of clients or a share in (0, 1], not {self.minimum!r}"
            )
        if self.total is not None and self.budget is None:
            raise InputError("total needs budget: the file that knows what was spent in all runs")
        if self.total is not None and not self.total > 0:
            raise InputError(f"total must be a positive number, not {self.total!r}")
        if not 0 <= self.held_out <= 0.5:
            raise InputError(f"held_out must be a share of clients from 0 to 0.5, not {self.held_out!r}")
        if not 0 < self.clip <= 1:
            raise InputError(f"clip must be a number in (0, 1], not {self.clip!r}")
        if self.clip != 1 and not self.held_out:
            raise InputError(f"clip = {self.clip!r} needs held_out: without it nothing is compared")
        if self.gap is not None and not 0 < self.gap <= 1:
            raise InputError(f"gap must be a number in (0, 1], not {self.gap!r}")
        if self.gap is not None and self.mechanism is not None and self.releases_values:
            raise InputError(
                f"gap = {self.gap!r}: has no effect with mechanism = {self.mechanism!r}, which releases "
                "scores: leave it out, or choose by 'permute-and-flip'"
            )

    @property
    def rotates(self) -> bool:
        """Whether a client is charged for the releases that asked it, rather than for all."""
        return self.accounting != "basic"

    @property
    def releases_values(self) -> bool:
        """Whether scores come out, rather than only which trials are best."""
        named = self.mechanism or DEFAULT
        return isinstance(named, str) and MECHANISMS.get(named, False)

    @property
    def gapped(self) -> bool:
        """Whether choices go by gaps, and may pool several evaluations."""
        return not self.releases_values and self.gap != 1

    def own_selection(self) -> Selection | None:
        """The selection of a user's own that the mechanism names; None where it is one of ours."""
        if self.mechanism is None or (isinstance(self.mechanism, str) and self.mechanism in MECHANISMS):
            return None
        registry: Registry[Any] = Registry("privacy", MECHANISMS, "mechanism")
        made = registry.build(self.mechanism, "mechanism")
        if not callable(made):
            raise InputError(
                f"mechanism = {shown(self.mechanism)}: must be called with values, count, epsilon, "
                "sensitivity and noise, and give the places chosen; see fedhpo.privacy.selection"
            )
        chosen: Selection = made
        return chosen

    def least(self, asked: int) -> int:
        """The replies without which nothing is released.

        >>> Privacy(1.0).least(5), Privacy(1.0, minimum=20).least(100)
        (3, 20)
        """
        return self.minimum if isinstance(self.minimum, int) else max(1, math.ceil(self.minimum * asked))

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able; without the budget over runs, which changes no release.

        Where nobody is held out they read as in runs of versions that had no comparison; so with gaps.
        """
        left_out = {"budget", "total", *(() if self.held_out else ("held_out", "clip"))}
        left_out |= set() if self.gapped else {"gap"}
        own = self.own_selection()
        code = {} if own is None else {"mechanism_code": code_of(type(own))}
        told = {name: value for name, value in asdict(self).items() if name not in left_out}
        return told | {"mechanism": told["mechanism"] or DEFAULT} | code

"""One-shot proxy search: tune on public data that the server holds, then train once at the clients.

"On noisy evaluation in federated hyperparameter tuning" (Kuo et al., 2023), section 4: (1) search using the
proxy data both to train and to score, with neither subsampling nor privacy noise; (2) train one model at the
clients with the best config found. As only one config reaches the clients, noise in their scores can no
longer mislead the search; what can is proxy data that is unlike theirs (Observation 7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import shown, whole_number
from fedhpo.methods.tuner import Tuner
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.method import Method
from fedhpo.protocol.sampler import Observation
from fedhpo.schedules import FixedLength
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.tuning.arguments import checked_callbacks

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: Counts that are work of the server, and those that would be messages if its clients were real.
_WORK = ("rounds", "client_rounds", "samples", "evaluations")


@dataclass(frozen=True)
class ProxySearch(Method):
    """Search on a proxy federation, then train the config that it finds, once.

    Parameters
    ----------
    federation
        Public data on the server, as a federation, or a function that makes one when it is needed.
    method
        How to search there: a name or a method, random search by default.
    length, total, cohort
        The budget of that search: rounds of one training, rounds in all, clients in a round. By default the
        rounds and the cohort of the training at the clients, and 10 trainings. None of it is communication.
    callbacks
        As in `fedhpo.tune`, for the search on the proxy federation.

    Notes
    -----
    The run of that search lies in the directory `proxy` of the run. Trial 0, the user's own config, is not
    trained, unless `baseline` asks for it.
    """

    federation: Federation | Callable[[], Federation]
    method: str | Method | Tuner = "random"
    length: int | None = None
    total: int | None = None
    cohort: int | None = None
    callbacks: Sequence[Callable[[Any], Any]] = field(default=(), compare=False)

    name: ClassVar[str] = "proxy"
    trains_once: ClassVar[bool] = True

    def __post_init__(self) -> None:
        from fedhpo.methods import method_of

        if not isinstance(self.federation, Federation) and not callable(self.federation):
            raise InputError(
                f"federation must be a federation or a function that makes one, not {shown(self.federation)}"
            )
        method_of(self.method)
        for name in ("length", "total", "cohort"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        checked_callbacks(self.callbacks)
        super().__post_init__()

    def rounds(self, search: Search) -> int:
        """One training; raises `InputError` where the budget is too small."""
        return FixedLength(1).rounds(search, _Found(()))

    def run(self, search: Search) -> Trial:
        """Find, then train once."""
        # Whatever is found, the calls that follow are the same: to plan them any config will do.
        planned = {"config": search.space.default().to_dict()}
        found = search.session.decide("proxy", self.to_dict(), lambda: self._search(search), planned=planned)
        search.facts["proxy"] = found
        *own, trial = search.start(2, _Found((Config.from_dict(found["config"]),)), Fixed())
        search.train([trial], search.rounds)
        search.evaluate([trial])
        search.finish([trial])
        search.eliminate(own)
        return search.best([trial])

    def _search(self, search: Search) -> dict[str, Any]:
        """The config found on the proxy federation, its score there, and what that took."""
        from fedhpo.search.events import StopTuning
        from fedhpo.tuning.tune import tune

        given = self.federation
        rounds = self.length or search.rounds
        made = given if isinstance(given, Federation) else given()
        if not isinstance(made, Federation):
            raise InputError(f"federation: the function must make a federation, not {shown(made)}")
        with nullcontext(made) if isinstance(given, Federation) else made as federation:
            result = tune(
                federation,
                search.space,
                self.method,
                rounds=rounds,
                total=self.total,
                cohort=min(self.cohort or search.cohort, len(federation.train_clients)),
                seed=search.seed,
                run=search.session.directory / "proxy",
                objective=search.objective,
                callbacks=self.callbacks,
            )
            about = federation.describe()
        if result.status == "stopped":
            raise StopTuning(result.facts["reason"])
        best = result.facts["best"]
        return {
            "config": best["config"],
            "validation": best["validation"],
            "data": about.get("data"),
            "method": result.facts["method"],
            "trials": len(result.trials),
            "cost": {**{name: result.cost[name] for name in _WORK}, "bytes_down": 0, "bytes_up": 0},
            "note": "simulated by the server on its own data: no communication, and no client is asked",
        }

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised."""
        return "a proxy search trains once at the clients, whatever the total"

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """The proxy federation too, or the function that makes it."""
        from fedhpo.methods import method_of

        given = self.federation
        own = given.fingerprint(space.default().model) if isinstance(given, Federation) else code_of(given)
        return {
            **super().fingerprint(space),
            "proxy": own,
            "search": method_of(self.method).fingerprint(space),
        }

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
        from fedhpo.methods import method_of

        return {
            "name": self.name,
            "method": method_of(self.method).to_dict(),
            "length": self.length,
            "total": self.total,
            "cohort": self.cohort,
        }


@dataclass(frozen=True)
class _Found:
    """A sampler that suggests what was found elsewhere."""

    configs: tuple[Config, ...]

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The first that was not tried yet."""
        left = (config for config in self.configs if config not in asked and (pool is None or config in pool))
        return next(left, None)

    def limit(self, space: Space) -> int | None:
        """As many as were found, but at least one, as long as nothing was."""
        return max(1, len(self.configs))

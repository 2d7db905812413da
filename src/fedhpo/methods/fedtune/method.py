"""FedTune by name: fill a reference table on proxy data, then train once, each client by its own cell.

Paper: "Demystifying hyperparameter optimization in federated learning", under review at ICLR 2022, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint import code_of
from fedhpo.core.fingerprint.arrays import array_digest
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.data import FederatedData
from fedhpo.data.fingerprint import data_of
from fedhpo.methods.fedtune.ask_profiles import ask_profiles
from fedhpo.methods.fedtune.cells import INDICES, QUANTITIES, Cells
from fedhpo.methods.fedtune.fill import Simulation, client_space, fill_table
from fedhpo.methods.fedtune.policy import LookUp
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.proxy import ProxySet
from fedhpo.methods.fedtune.reference_table import LOOK_UPS, ReferenceTable
from fedhpo.methods.fedtune.section import table_sections
from fedhpo.methods.fedtune.table_policy import check_covers
from fedhpo.methods.fedtune.tuner import CellTuner
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import QUERY, Federation
from fedhpo.protocol.method import Method
from fedhpo.protocol.sampler import Observation
from fedhpo.schedules import FixedLength
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


#: Where settings count that only a search in the mixture looks at.
_MIXTURE: Mapping[str, Any] = {"table": None, "scored_on": "mixture"}
#: Where cells are tuned one by one.
_BY_CELL: Mapping[str, Any] = {"table": None, "scored_on": ("held-out", "own")}
_NEEDS_PROXY = "needs proxy data ([proxy.data] in a study file; proxy= and simulate=)"


@dataclass(frozen=True)
class FedTune(Method):
    """FedTune: client hyperparameters by the client's own profile, from a table tuned on proxy data.

    Either `table`, a file that holds a reference table, or a proxy set (in a study file `[proxy.data]`),
    public data on the server. From it `clients` simulated clients (5) are dealt for each cell (`indices` x
    `quantities`, as `measure` says), and each cell is tuned: the `sampler` ("gp", "random", "grid" with
    `points` values) suggests client hyperparameters, `length` rounds are simulated (with `cohort`, of so many
    clients of the cell, drawn anew in each), and the model is scored on the share `held_out` of the proxy set
    ("held-out"), or at the cell's own clients ("own"); at most `steps` of these, or until `patience` steps
    (0: no limit) brought no improvement; `warm_start` tries neighbours' best configs first. Then one model is
    trained: the table goes out with it, and each client takes the nearest cell (`look_up` "nearest") or what
    lies between cells ("interpolated").

    `scored_on` "mixture" tunes no cell by itself: `steps` whole tables of a few parameters are simulated,
    each on `deals` deals of a federation of `clients` (24) with the expected profiles, `cohort` (5) of them a
    round. What changes with the profile is the learning rate (`shape` "rate"), or how much a client counts
    ("weight", or by FedNova's rule, "fednova"). The expected `profiles` are "uniform" over the cells, the
    `shares` of the cells that you give, row by row, or "asked": each client tells its cell once, by
    randomised response with `epsilon`. `equal_work` makes all clients train on about as many samples.
    """

    table: str | None = None
    indices: tuple[float, ...] = setting(INDICES, table=None)
    quantities: tuple[int, ...] = setting(QUANTITIES, table=None)
    clients: int | None = setting(None, table=None)
    cohort: int | None = setting(None, table=None)
    length: int = setting(20, table=None)
    steps: int = setting(30, table=None)
    patience: int = setting(5, **_BY_CELL)
    sampler: Literal["gp", "random", "grid"] = setting("gp", **_BY_CELL)
    points: int = setting(5, sampler="grid", **_BY_CELL)
    warm_start: bool = setting(False, **_BY_CELL)
    look_up: Literal["nearest", "interpolated"] = "nearest"
    measure: Literal["heterogeneity_index", "entropy", "gaussian", "poisson"] = setting(
        "heterogeneity_index", table=None
    )
    scored_on: Literal["held-out", "own", "mixture"] = setting("held-out", table=None)
    held_out: float = setting(0.2, table=None, scored_on=("held-out", "mixture"))
    deals: int = setting(2, **_MIXTURE)
    shape: Literal["rate", "weight", "fednova"] = setting("rate", **_MIXTURE)
    equal_work: bool = setting(False, **_MIXTURE)
    profiles: Literal["uniform", "asked"] = setting("uniform", **_MIXTURE)
    shares: tuple[float, ...] | None = setting(None, **_MIXTURE)
    epsilon: float = setting(1.0, profiles="asked", **_MIXTURE)
    #: The proxy set, or a function that reads it when it is needed.
    proxy: FederatedData | Callable[[], FederatedData] | None = field(default=None, compare=False)
    #: Makes the federation of simulated clients, such as `functools.partial(fedhpo.simulate, "mlp")`.
    simulate: Callable[[FederatedData], Federation] | None = field(default=None, compare=False)

    name: ClassVar[str] = "fedtune"
    trains_once: ClassVar[bool] = True
    better: ClassVar[str] = (
        "fedtune is the paper's algorithm, whose cells are tuned alone; fedtune-auto did better in our "
        "comparisons, by 1.0 to 4.0 points on three sets (docs/methods/fedtune.md)"
    )

    @staticmethod
    def auto(**settings: Any) -> FedTuneAuto:
        """FedTune whose tables are scored where they will work: see `FedTuneAuto`.

        >>> FedTune.auto(table="table.json").name
        'fedtune-auto'
        """
        return FedTuneAuto(**settings)

    def __post_init__(self) -> None:
        check_settings(self)
        _ = self._cells, self._simulation, self._cell_tuner
        if self.look_up not in LOOK_UPS:
            raise InputError(f"look_up must be one of {', '.join(LOOK_UPS)}, not {self.look_up!r}")
        if self.shares is not None:
            if self.profiles == "asked":
                raise InputError("shares: leave them out where profiles = 'asked', or ask nobody")
            Profiles.given(self._cells, self.shares)
        if not 0 < self.epsilon < math.inf:
            raise InputError(f"epsilon must be a positive number, not {self.epsilon!r}")
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out must be a share between 0 and 1, not {self.held_out!r}")
        super().__post_init__()

    @property
    def _cells(self) -> Cells:
        return Cells(tuple(self.indices), tuple(self.quantities))

    @property
    def _simulation(self) -> Simulation:
        return Simulation(self.clients, self.length, self.scored_on, self.measure, self.cohort, self.deals)

    @property
    def _cell_tuner(self) -> CellTuner:
        whole_number("patience", self.patience, least=0)
        return CellTuner(self.sampler, self.steps, self.patience or None, self.points, self.warm_start)

    @property
    def needs(self) -> frozenset[str]:
        """Hyperparameters of each client's own; an answer where clients are asked."""
        return LookUp.needs | (frozenset({QUERY}) if self._asks else frozenset())

    @property
    def _asks(self) -> bool:
        return self.profiles == "asked" and self.table is None

    def rounds(self, search: Search) -> int:
        """One training; what cannot be is refused here."""
        client_space(search.space)
        if self._asks and search.evaluator.privacy is not None:
            raise InputError(
                "profiles = 'asked' spends epsilon of its own, and scores are to take all of evaluation's: "
                "give shares, or leave it out"
            )
        if self.table is not None:
            self._loaded(search.space)
        elif self.proxy is None or self.simulate is None:
            raise InputError(f"{self.name} {_NEEDS_PROXY}, or a table (table = 'FILE')")
        return FixedLength(1).rounds(search, _Once(None))

    def run(self, search: Search) -> Trial:
        """Fill the table, then train once."""
        # Whatever the table holds, the calls that follow are the same: to plan them any will do.
        planned = _any_table(search.space).to_dict()
        profiles = self._profiles(search)
        found = search.session.decide(
            "table", self.to_dict(), lambda: self._found(search, profiles).to_dict(), planned=planned
        )
        table = ReferenceTable.from_dict(found)
        search.facts["table"] = found
        search.facts["proxy"] = _proxy_facts(table)
        policy = LookUp(table)
        own = search.start(1, _Once(None), Fixed())
        # The clients' hyperparameters are theirs: the trial's config holds the others only.
        config = search.space.default().replace(client={})
        [trial] = search.start(1, _Once(config), policy)
        search.train([trial], search.rounds)
        search.evaluate([trial])
        search.finish([trial])
        search.eliminate(own)
        return search.best([trial])

    def sections(self, search: Search) -> list[Any]:
        """The table that went out with the model, for the report."""
        return table_sections(search.facts.get("table"))

    def _profiles(self, search: Search) -> Profiles | None:
        """The profiles that clients sent, where they are asked."""
        if not self._asks:
            return None
        edges = None if self.proxy is None else self._proxy_set(search.seed).edges
        return ask_profiles(search, self._cells, self.measure, edges, self.epsilon)

    def _found(self, search: Search, profiles: Profiles | None) -> ReferenceTable:
        """The table of the file, or one that is filled now; it is kept beside the run's record."""
        if self.table is not None:
            return self._loaded(search.space)
        directory = search.session.directory
        table = self.fill(
            search.space, search.seed, directory / "cells", lambda: search.tell("table"), profiles
        )
        table.save(directory / "table.json")
        return table

    def _proxy_set(self, seed: int) -> ProxySet:
        if self.proxy is None or self.simulate is None:
            raise InputError(f"{self.name} {_NEEDS_PROXY}")
        return ProxySet.of(self.proxy() if callable(self.proxy) else self.proxy, self.held_out, seed)

    def fill(
        self,
        space: Space,
        seed: int = 0,
        directory: str | Path | None = None,
        after_step: Callable[[], Any] = lambda: None,
        profiles: Profiles | None = None,
    ) -> ReferenceTable:
        """The table alone, filled from the proxy set; see `fedhpo.fill_table`.

        `profiles` are those that clients told: without them nobody can be asked here.
        """
        proxy = self._proxy_set(seed)
        assert self.simulate is not None
        if self._asks and profiles is None:
            raise InputError(
                "profiles = 'asked' needs clients to ask: fill the table in a run, or give shares, or leave "
                "it out"
            )
        if self.shares is not None:
            profiles = Profiles.given(self._cells, self.shares)
        return fill_table(
            proxy,
            self.simulate,
            space,
            cells=self._cells,
            simulation=self._simulation,
            tuner=self._cell_tuner,
            profiles=profiles,
            shape=self.shape,
            equal_work=self.equal_work,
            look_up=self.look_up,
            seed=seed,
            directory=directory,
            after_step=after_step,
        )

    def _loaded(self, space: Space) -> ReferenceTable:
        """The table of the file; its client hyperparameters are those of the space."""
        assert self.table is not None
        table = ReferenceTable.load(self.table)
        check_covers(table, client_space(space), self.table)
        return replace(table, look_up=self.look_up)

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised."""
        return f"{self.name} trains once, whatever the total"

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """The table's content, or the proxy set (the function that reads it) and its simulation too."""
        found = super().fingerprint(space)
        if self.table is not None:
            content = canonical(self._loaded(space).to_dict())
            return {**found, "table": array_digest(np.frombuffer(content, np.uint8))}
        if self.proxy is not None:
            found["proxy"] = (
                data_of(self.proxy) if isinstance(self.proxy, FederatedData) else code_of(self.proxy)
            )
        return found if self.simulate is None else {**found, "simulate": code_of(self.simulate)}

    def to_dict(self) -> dict[str, Any]:
        """Its settings, JSON-able."""
        settings = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("proxy", "simulate")
        }
        return {"name": self.name, **settings}


@dataclass(frozen=True)
class FedTuneAuto(FedTune):
    """FedTune whose tables are scored in the mixture of all profiles, where they will work.

    A table is kept only where it is ahead of one config for all. `scored_on` is "mixture"; the other settings
    are FedTune's.

    >>> FedTuneAuto().scored_on
    'mixture'
    """

    scored_on: Literal["mixture"] = setting("mixture", table=None)

    name: ClassVar[str] = "fedtune-auto"
    better: ClassVar[str] = ""


def _proxy_facts(table: ReferenceTable) -> dict[str, Any] | None:
    """What filling the table took, as of a proxy search; None of a table that says nothing of it."""
    facts = table.facts
    if "steps" not in facts:
        return None
    rounds = facts["steps"] * facts["rounds"]
    return {
        "trials": facts["steps"],
        "data": facts["data"],
        "cost": {"rounds": rounds, "client_rounds": facts["iterations"], "bytes_down": 0, "bytes_up": 0},
        "note": "simulated by the server on its own data: no communication, and no client is asked",
    }


def _any_table(space: Space) -> ReferenceTable:
    tuned = client_space(space)
    return ReferenceTable(Cells((0.5,), (1,)), (tuned.default().client,), tuned)


@dataclass(frozen=True)
class _Once:
    """A sampler that suggests one config, if any."""

    config: Config | None

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """It, unless it was tried."""
        return None if self.config in asked else self.config

    def limit(self, space: Space) -> int | None:
        """One."""
        return 1

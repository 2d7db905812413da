"""Fill a reference table from a proxy set: deal clients for each cell, tune each, keep the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.journal import Journal
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.data import FederatedData
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.fill_mixture import fill_mixture
from fedhpo.methods.fedtune.measures import check_measure
from fedhpo.methods.fedtune.mixture import Budget
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.proxy import ProxySet
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.methods.fedtune.shapes import Shape, Tables
from fedhpo.methods.fedtune.simulator import Simulator
from fedhpo.methods.fedtune.tuner import CellSearch, CellTuner, counted, tune_cells
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.objective import Objective
from fedhpo.space import Space

SCORED_ON = ("held-out", "own", "mixture")
#: Simulated clients, and how many of them train in a round, unless something else is said: of a cell, of a
#: whole federation.
_CELL, _FEDERATION = (5, None), (24, 5)


@dataclass(frozen=True)
class Simulation:
    """How a cell is simulated.

    `clients` of the cell train for `rounds`, all of them in each, or `cohort` of them, drawn anew in each
    round; the model is scored on the proxy set's held-out rows ("held-out"), or on the held-out rows of the
    classes that each client holds ("own", to compare: the paper's Figure 2c). With "mixture" no cell is
    simulated by itself: see `fedhpo.methods.fedtune.mixture`. Then `clients` are those of a whole federation
    with the expected profiles, and each table is simulated on `deals` deals of them.
    """

    clients: int | None = None
    rounds: int = 20
    scored_on: str = "held-out"
    measure: str = "heterogeneity_index"
    cohort: int | None = None
    deals: int = 2

    def __post_init__(self) -> None:
        check_settings(self)
        check_measure(self.measure)
        if self.scored_on not in SCORED_ON:
            raise unknown_name("scored_on", self.scored_on, SCORED_ON)
        usual, some = _FEDERATION if self.scored_on == "mixture" else _CELL
        if self.clients is None:
            object.__setattr__(self, "clients", usual)
        for name in ("clients", "rounds", "deals"):
            whole_number(name, getattr(self, name))
        assert self.clients is not None
        if self.cohort is None and some is not None:
            object.__setattr__(self, "cohort", min(some, self.clients))
        if self.cohort is not None and not 1 <= whole_number("cohort", self.cohort) <= self.clients:
            raise InputError(f"cohort={self.cohort}; allowed: 1 to {self.clients}, the simulated clients")

    @property
    def members(self) -> int:
        """How many clients train in a round."""
        assert self.clients is not None
        return self.clients if self.cohort is None else self.cohort


def fill_table(
    proxy: ProxySet | FederatedData,
    simulate: Callable[[FederatedData], Federation],
    space: Space,
    *,
    cells: Cells | None = None,
    simulation: Simulation | None = None,
    tuner: CellTuner | None = None,
    profiles: Profiles | None = None,
    shape: Shape = "rate",
    equal_work: bool = False,
    objective: Objective | None = None,
    look_up: str = "nearest",
    seed: int = 0,
    directory: str | Path | None = None,
    after_step: Callable[[], Any] = lambda: None,
) -> ReferenceTable:
    """A reference table, tuned on simulated clients.

    `proxy` is public data on the server: what `fedhpo.load` returns, of which a fifth is kept for scoring, or
    a `ProxySet` that says otherwise. `simulate` makes the federation of the simulated clients, such as
    `functools.partial(fedhpo.simulate, "mlp")`. The scope `client` of the space is tuned; the other scopes
    stay at their defaults. Every cell tries the space's default first. With a `directory` every step is kept
    there, and the next call goes on.

    With `Simulation(scored_on="mixture")` one search over tables of a few parameters takes the place of the
    cells': `profiles` says which federation they are for (as many clients in each cell if left out), `shape`
    what changes with the profile, and `equal_work` makes all clients train on about as many samples.

    >>> import functools
    >>> import fedhpo as fh
    >>> table = fill_table(
    ...     fh.load("digits"),
    ...     functools.partial(fh.simulate, "linear", workers=0),
    ...     fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}),
    ...     cells=Cells((0.2, 0.8), (50,)),
    ...     simulation=Simulation(clients=2, rounds=2),
    ...     tuner=CellTuner(steps=3),
    ... )
    >>> table.facts["steps"], [score > 0.1 for score in table.scores]
    (6, [True, True])
    """
    cells, simulation, tuner = cells or Cells(), simulation or Simulation(), tuner or CellTuner()
    proxy = proxy if isinstance(proxy, ProxySet) else ProxySet.of(proxy, seed=seed)
    objective = objective or default_objective(proxy)
    tuned = client_space(space)
    if simulation.scored_on == "mixture":
        profiles = profiles or Profiles.uniform(cells)
        tables = Tables(tuned, profiles, shape, simulation.measure, proxy.edges, look_up, equal_work)
        assert simulation.clients is not None
        budget = Budget(
            tuner.steps, simulation.deals, simulation.clients, simulation.members, simulation.rounds
        )
        return fill_mixture(
            proxy,
            simulate,
            tables,
            budget,
            tuned.default(),
            objective,
            seed=seed,
            directory=directory,
            after_step=after_step,
        )
    if equal_work:
        raise InputError("equal_work needs scored_on = 'mixture': cells are tuned each by itself")
    assert simulation.clients is not None
    proxies = proxy.federation(cells, simulation.clients, simulation.measure, seed)
    own = simulation.scored_on == "own"
    about = {
        "cells": asdict(cells),
        "simulation": asdict(simulation),
        "tuner": asdict(tuner),
        "space": tuned.to_dict(),
        "objective": objective.to_dict(),
        "data": proxy.data.name,
        "rows": [len(proxy.dealt), len(proxy.scored)],
        "seed": seed,
    }
    journal = Journal(None if directory is None else Path(directory) / "steps.jsonl", about)
    default = tuned.default()
    with simulate(proxies.data) as federation:
        if not list(journal):
            federation.preflight(default, objective.metric)
        simulator = Simulator(
            federation,
            proxies.groups,
            proxies.scorer,
            simulation.rounds,
            simulation.members,
            objective,
            default.server,
            default.model,
            seed,
            own,
        )
        searches = tune_cells(
            lambda asked: [one.score("own" if own else "held-out") for one in simulator.simulate(asked)],
            cells,
            tuned,
            tuner,
            objective=objective,
            seed=seed,
            journal=journal,
            first=[default],
            after_step=after_step,
        )
    if all(math.isnan(score) for search in searches for score in search.scores):
        from fedhpo.search.events import TuningError

        raise TuningError(f"no cell of the table could be trained; the first: {simulator.failures.first}")
    facts: Mapping[str, Any] = {
        "data": proxy.data.name,
        **asdict(simulation),
        "sampler": tuner.sampler,
        **counted(searches),
        "iterations": counted(searches)["steps"] * simulator.iterations,
        "metric": objective.metric,
        "attained": np.round(proxies.attained, 4).tolist(),
        "seed": seed,
    }
    return table_of(searches, cells, tuned, objective, simulation.measure, proxy.edges, look_up, facts)


def table_of(
    searches: list[CellSearch],
    cells: Cells,
    space: Space,
    objective: Objective,
    measure: str = "heterogeneity_index",
    edges: tuple[float, ...] | None = None,
    look_up: str = "nearest",
    facts: Mapping[str, Any] | None = None,
) -> ReferenceTable:
    """The table of the best configs; a cell in which all training diverged has the default and no score."""
    best = [search.best(objective) or (space.default(), math.nan) for search in searches]
    return ReferenceTable(
        cells,
        tuple(config.client for config, _ in best),
        space,
        tuple(None if math.isnan(score) else round(score, 6) for _, score in best),
        measure,
        edges,
        look_up,
        facts or {},
    )


def client_space(space: Space) -> Space:
    """What FedTune tunes: the scope `client`, the others fixed at their defaults."""
    tuned = space.subspace(["client"], space.default())
    if not tuned.names:
        raise InputError("fedtune tunes client hyperparameters, and the space has none in scope client")
    return tuned


def default_objective(proxy: ProxySet) -> Objective:
    """Accuracy, or the loss in regression."""
    return Objective("accuracy" if proxy.data.classes is not None else "loss")

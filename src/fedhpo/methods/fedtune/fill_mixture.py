"""Fill a reference table by one search in the mixture of profiles; see `fedhpo.methods.fedtune.mixture`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fedhpo.core.journal import Journal
from fedhpo.data import FederatedData
from fedhpo.methods.fedtune.mixture import Budget, Mixture
from fedhpo.methods.fedtune.proxy import ProxySet
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.methods.fedtune.shapes import Tables
from fedhpo.methods.fedtune.simulator import Simulator
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config


def fill_mixture(
    proxy: ProxySet,
    simulate: Callable[[FederatedData], Federation],
    tables: Tables,
    budget: Budget,
    default: Config,
    objective: Objective,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    after_step: Callable[[], Any] = lambda: None,
) -> ReferenceTable:
    """The best table of a shape that is ahead of one config for all; else that config in every cell."""
    constant = replace(tables, shape="constant")
    proxies = proxy.mixture(tables.profiles, budget.clients, budget.groups, tables.measure, seed)
    about = {
        "budget": asdict(budget),
        "scored_rounds": budget.scored_rounds,
        "cells": asdict(tables.profiles.cells),
        "profiles": tables.profiles.to_dict(),
        "measure": tables.measure,
        "space": tables.space.to_dict(),
        "objective": objective.to_dict(),
        "data": proxy.data.name,
        "rows": [len(proxy.dealt), len(proxy.scored)],
        "seed": seed,
    }
    journal = Journal(None if directory is None else Path(directory) / "mixture.jsonl", about)
    with simulate(proxies.data) as federation:
        if not list(journal):
            federation.preflight(default, objective.metric)
        simulator = Simulator(
            federation,
            proxies.groups,
            proxies.scorer,
            budget.rounds,
            budget.cohort,
            objective,
            default.server,
            default.model,
            seed,
            last=budget.scored_rounds,
            resolve=proxies.resolve,
        )
        mixture = Mixture(simulator, budget, journal, after_step)
        one = mixture.search(constant, seed)
        found = mixture.search(tables, seed, one.search)
        found = mixture.capped(found, constant)
        compared = mixture.compared(found, one, default)
    if compared["global"] is None and compared["table"] is None:
        from fedhpo.search.events import TuningError

        raise TuningError(f"no table could be trained; the first: {simulator.failures.first}")
    kept = found if compared["kept"] else one
    facts: Mapping[str, Any] = {
        "data": proxy.data.name,
        "scored_on": "mixture",
        "made_for": tables.profiles.to_dict(),
        "shape": kept.tables.shape,
        "config": kept.config.to_dict(),
        "compared": compared,
        "metric": objective.metric,
        "steps": mixture.simulations,
        "rounds": budget.rounds,
        "clients": budget.clients,
        "cohort": budget.cohort,
        "iterations": mixture.simulations * budget.rounds * budget.cohort,
        "seed": seed,
    }
    return replace(kept.table, facts=facts)

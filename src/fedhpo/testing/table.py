"""A made-up table, to try methods and samplers on: nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedhpo.research.tables import CurveTable, score_rounds, table_configs
from fedhpo.study import Study

_SPACE = {
    "client": {"lr": {"low": 1e-6, "high": 1.0, "log": True}, "momentum": {"low": 0.0, "high": 0.9}},
    "server": {"lr": {"low": 1e-6, "high": 0.1, "log": True}, "beta1": {"low": 0.0, "high": 0.9}},
}


def toy_table(
    configs: int = 128,
    rounds: int = 405,
    clients: int = 100,
    *,
    spread: float = 0.15,
    size: int = 40,
    total: int | None = None,
    failed: Mapping[int, int] | None = None,
) -> CurveTable:
    """Errors that fall towards a level that depends on the learning rates; clients differ by `spread`.

    `clients` validate, four times as many train. `failed` names configs whose training ends early, and how
    many rounds they get. With heterogeneity 1 all clients agree.

    >>> toy_table(configs=4, rounds=9, clients=10).wrong.shape
    (3, 4, 4, 10)
    """
    given = {
        "name": "toy",
        "data": {"name": "synthetic", "clients": 5 * clients},
        "model": {"name": "linear"},
        "server": {"optimiser": "fedadam", "weighting": "uniform"},
        "space": _SPACE,
        "objective": {"metric": "error"},
        "budget": {"rounds": rounds, "total": total or 16 * rounds, "cohort": 10},
    }
    rng = np.random.default_rng(0)
    space = Study.from_dict(given).space
    chosen = table_configs(space, configs)
    logs = np.log10([[c.client["lr"], c.server["lr"]] for c in chosen])
    level = np.clip(0.2 + 0.08 * np.hypot(*(logs - [-1.5, -2.5]).T) ** 1.5, 0.2, 0.9)
    grid = np.array(score_rounds(rounds))
    mean = level[:, None] + (0.9 - level)[:, None] * np.exp(-6 * grid / rounds)
    alike, own = rng.normal(size=clients), rng.normal(size=(configs, 1, clients))
    error = np.clip(mean[..., None] + spread * (0.8 * alike + 0.6 * own), 0, 1)
    error = np.stack([error, 0.5 * (error + mean[..., None]), np.broadcast_to(mean[..., None], error.shape)])
    trained = np.full(configs, rounds)
    for config, round in (failed or {}).items():
        trained[config] = round
    sizes = np.zeros(5 * clients, np.int64)
    sizes[:clients] = size
    return CurveTable(
        name="toy",
        study_tables=given,
        configs=tuple(chosen),
        rounds=grid,
        heterogeneity=(0.0, 0.5, 1.0),
        train_sizes=np.where(sizes, 0, 30),
        validation_sizes=sizes,
        trained=trained,
        parameters=np.full(configs, 610),
        wrong=np.rint(error * size).astype(np.int64),
        counted=np.full((3, clients), size),
        loss=(3 * error).astype(np.float16),
        recipe={"seed": 0},
    )

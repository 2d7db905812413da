"""Measuring a ground truth: each config is trained alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner
from fedhpo.methods.fedex.ground_truth import GroundTruth
from fedhpo.schedules import FixedLength
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.tuning.tune import tune

if TYPE_CHECKING:
    from fedhpo.protocol.federation import Federation


def train_alone(
    federation: Federation,
    space: Space,
    clients: Sequence[Mapping[str, Any]],
    *,
    rounds: int,
    cohort: int,
    seed: int = 0,
    run: str | Path | None = None,
    callbacks: Sequence[Any] = (),
) -> GroundTruth:
    """Train each of these client hyperparameters alone for `rounds`, all else by the space's defaults.

    With a `run` it can be resumed like any other. One that cannot be trained is worth as little as the
    worst of the others.

    >>> from fedhpo.space import Float, Space
    >>> from fedhpo.testing import ToyFederation
    >>> space = Space(client={"lr": Float(0.001, 10.0, log=True)})
    >>> toy = ToyFederation(noise=0.0)
    >>> truth = train_alone(toy, space, [{"lr": 0.1}, {"lr": 0.5}, {"lr": 5.0}], rounds=3, cohort=4)
    >>> truth.values == tuple(sorted(truth.values, reverse=True))
    True
    """
    configs = [space.default().replace(client=client) for client in clients]
    result = tune(
        federation,
        _centred(space, configs[0]),
        Tuner(FixedLength(len(configs))),
        rounds=rounds,
        total=rounds * len(configs),
        cohort=cohort,
        seed=seed,
        run=run,
        enqueue=configs[1:],
        callbacks=callbacks,
    )
    if result.status != "finished":
        raise InputError(
            f"the ground truth is not complete: {result.facts['reason']}; call it again to go on"
        )
    scores = [np.nan if row["score"] is None else float(row["score"]) for row in result.facts["trials"]]
    worst = float(np.nanmin(scores))
    return GroundTruth(tuple(clients), tuple(worst if np.isnan(score) else score for score in scores))


def _centred(space: Space, config: Config) -> Space:
    """The space with this config as its default, and so as trial 0."""
    tables = space.to_dict()
    for name, value in config.to_dict().get("client", {}).items():
        if f"client.{name}" in space.hyperparameters:
            tables["client"][name]["default"] = value
    return Space.from_dict(tables)

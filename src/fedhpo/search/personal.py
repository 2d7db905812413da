"""Personalised scores: what the model is worth at each client after it was fine-tuned there.

The model is trained once more at each client, on its training data with the tuned client hyperparameters,
and scored on its test data before and after. Nothing but these scores comes back. They are for the report
only: no method selects by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.protocol.federation import Answer, Floats, Status
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.session import Session

_METRICS = ("accuracy", "loss")


def personalised(session: Session, trial: int, client: Mapping[str, Any]) -> dict[str, Any] | None:
    """Personalised scores of a trial over all clients with training and test data; None without any."""
    clients = np.intersect1d(session.train_clients, session.test_clients)
    if not len(clients):
        return None
    return over_clients(session.query(FineTune(trial, client), clients))


def over_clients(answers: Sequence[Answer]) -> dict[str, Any]:
    """The answers of all clients, summed up: of the `global` model, and `fine_tuned`; JSON-able.

    `clients` counts those with a score, `failed` those whose fine-tuning failed.
    """
    good = [answer.content for answer in answers if answer.status == Status.OK and answer.content["size"]]
    found: dict[str, Any] = {
        "clients": len(good),
        "failed": sum(answer.status != Status.OK for answer in answers),
    }
    for name, when in (("global", "before"), ("fine_tuned", "after")):
        columns = {m: np.array([one[f"{m}_{when}"] for one in good], np.float64) for m in _METRICS}
        found[name] = {m: spread(values, higher=m == "accuracy") for m, values in columns.items()}
    return found


def spread(values: Floats, *, higher: bool) -> dict[str, Any]:
    """Mean, standard deviation, worst tenth and deciles over clients, each counting the same.

    `lowest_decile` is the mean over the tenth of the clients that are worst off (at least one); `deciles`
    go from the lowest value to the highest. What is not finite makes no sum, and counts in `lost`.

    >>> spread(np.array([0.1, 0.5, 0.6, 0.8]), higher=True)["lowest_decile"]
    0.1
    """
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return {
            "mean": None,
            "standard_deviation": None,
            "lowest_decile": None,
            "deciles": None,
            "lost": len(values),
        }
    worst = known if higher else known[::-1]
    return {
        "mean": float(known.mean()),
        "standard_deviation": float(known.std(ddof=1)) if len(known) > 1 else None,
        "lowest_decile": float(worst[: max(1, len(known) // 10)].mean()),
        "deciles": [float(value) for value in np.quantile(known, np.linspace(0, 1, 11))],
        "lost": len(values) - len(known),
    }

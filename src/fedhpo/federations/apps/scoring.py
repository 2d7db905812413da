"""Scores that no client's `evaluate` gives: the server's own, and those of training."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive, seeded
from fedhpo.core.user_code import in_words
from fedhpo.federations.apps.captured import Captured, working_in
from fedhpo.federations.apps.quiet import to_standard_error
from fedhpo.federations.apps.records import numbers
from fedhpo.federations.strategies.step import quiet, record_of
from fedhpo.protocol.federation import Cost, Scores, SplitName
from fedhpo.protocol.objective import SERVER, TRAINING, Objective

#: Hyperparameters by which the loss itself changes, not only the model.
_CHANGES_LOSS = re.compile(
    r"dropout|smooth|seq.?len|max.?len|length|block.?size|temperature|class.?weight|mixup|loss", re.I
)


def server_metrics(
    captured: Captured, round: int, arrays: Mapping[str, NDArray[Any]], metric: str
) -> dict[str, float]:
    """The score that the server's `evaluate_fn` gives a model.

    It is not asked as in the last round, where some apps turn to their test rows, unless the metric is only
    there: some apps score nothing before.
    """
    if captured.evaluate_fn is None:
        raise InputError(
            "objective.from = 'server': the app's server has no evaluate_fn; choose 'clients' (their "
            "evaluate) "
            "or 'training' (what training returns)"
        )
    found: dict[str, float] = {}
    last = max(captured.rounds, 1)
    for asked in dict.fromkeys((min(round, last - 1), min(round, last), last)):
        try:
            with seeded(derive(0, "server")), quiet(), to_standard_error(), working_in(captured.directory):
                told = captured.evaluate_fn(asked, record_of(arrays))
        except Exception as error:
            raise InputError(f"the app's evaluate_fn failed: {in_words(error)}") from error
        found |= {
            name: number
            for key, value in dict(told or {}).items()
            for name, number in numbers(key, value).items()
        }
        if metric in found:
            return found
    names = ", ".join(sorted(found)) or "nothing"
    raise InputError(
        f"objective.metric = {metric!r}: the server's evaluate_fn returns {names}; name one of these, or "
        f"choose "
        "from = 'clients' or 'training'"
    )


def check_training_loss(objective: Objective, names: Sequence[str]) -> str | None:
    """Refuse, or warn of, a space by which the training loss itself changes."""
    found = [name for name in names if _CHANGES_LOSS.search(name)]
    if objective.from_ != TRAINING or not found:
        return None
    what = ", ".join(found)
    if objective.at_zero:
        raise InputError(
            f"objective.from = 'training' with at_zero: the space tunes {what}, by which the loss itself "
            f"changes: "
            "losses of two configs could not be compared. Leave it out of the space, or choose from = "
            "'clients' "
            "or 'server'"
        )
    return (
        f"objective.from = 'training': the space tunes {what}, by which the training loss itself changes, "
        f"not only "
        "the model: lower is not better for sure"
    )


def one_score(
    objective: Objective,
    trial: int,
    split: SplitName,
    place: int,
    metrics: Mapping[str, float],
    names: Sequence[str],
) -> Scores:
    """A score that is nobody's: as of one client, whose number is `place`."""
    value = metrics.get(objective.metric, math.nan)
    share = objective.maximise and 0 <= value <= 1
    return Scores(
        trial,
        split,
        np.array([place], np.int64),
        np.zeros(1, np.int8),
        np.ones(1, np.int64),
        np.array([1 - value if objective.maximise else value]),
        np.array([value if share else math.nan]),
        {},
        Cost(),
        {name: np.array([metrics.get(name, math.nan)]) for name in names},
    )


def training_metrics(replies: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, float]:
    """The means of what clients returned of training, by their rows; one that did not train returns nothing.

    >>> training_metrics([(1, {"train_loss": 1.0}), (3, {"train_loss": 2.0}), (5, {})])
    {'train_loss': 1.75}
    """
    found = {}
    for name in sorted({name for _, metrics in replies for name in metrics}):
        told = [(size, metrics[name]) for size, metrics in replies if name in metrics]
        found[name] = float(sum(size * value for size, value in told) / sum(size for size, _ in told))
    return found


def choices(captured: Captured) -> str:
    """Where an app whose clients have no `evaluate` can be scored, in words."""
    server = (
        f'[objective] from = "{SERVER}" (its evaluate_fn)'
        if captured.evaluate_fn is not None
        else f'from = "{SERVER}" needs an evaluate_fn, which the app has not'
    )
    return f'{server}, or from = "{TRAINING}" (a metric that training returns)'

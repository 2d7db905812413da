"""The members' losses after local training, from a round's report."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedhpo.protocol.federation import Floats, RoundReport
from fedhpo.protocol.reasons import Why


def client_losses(report: RoundReport) -> Floats:
    """The loss of each member's own model: NaN where there is none, infinite where it is not finite.

    There is none of a client that is missing, failed, or has no validation data. A client whose update was
    refused because it was not finite did train, and diverged.
    """
    measured = report.ok & (report.validation_size > 0)
    finite = np.where(np.isfinite(report.loss_after), report.loss_after, math.inf)
    losses = np.where(measured, finite, math.nan)
    losses[diverged(report)] = math.inf
    return losses


def round_loss(report: RoundReport) -> float:
    """FedPop's score of a trial in one round: the plain mean over its clients; NaN if there are none.

    It is infinite if a client whose update was used has an infinite loss, or if all diverged. An update
    that was refused did no harm to the model: it counts like the worst loss in the report.
    """
    losses, refused = client_losses(report), diverged(report)
    known = np.concatenate([losses[~refused], report.loss_before])
    known = known[np.isfinite(known)]
    if refused.any() and len(known):
        losses[refused] = known.max()
    heard = losses[~np.isnan(losses)]
    return float(heard.mean()) if len(heard) else math.nan


def diverged(report: RoundReport) -> NDArray[np.bool_]:
    """Which members' updates were refused because they are not finite; reasons go by place in the cohort."""
    found = np.zeros(len(report.cohort), np.bool_)
    for place, reason in report.reasons.items():
        found[place] = reason.why in (Why.DIVERGED, Why.OVERFLOW, Why.TOO_LARGE)
    return found

"""Federations: the protocol that methods speak, and the runtimes that understand it."""

from fedhpo.federation.fine_tune import FineTune
from fedhpo.federation.protocol import (
    Answer,
    ClientSide,
    Cost,
    Federation,
    Query,
    RoundReport,
    Scores,
    Status,
    TrialState,
    Work,
)

__all__ = [
    "Answer",
    "ClientSide",
    "Cost",
    "Federation",
    "FineTune",
    "Query",
    "RoundReport",
    "Scores",
    "Status",
    "TrialState",
    "Work",
]

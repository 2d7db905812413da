"""Runs that survive: the record, the ledger, checkpoints and resume."""

from fedhpo.core.run_errors import (
    BudgetError,
    DamageError,
    NotBegunError,
    OtherVersionError,
    ReplayError,
    RunError,
)
from fedhpo.protocol.ledger import Budget, Ledger
from fedhpo.run.record import Event, Record
from fedhpo.run.run import Run, list_runs, open_read

__all__ = [
    "Budget",
    "BudgetError",
    "DamageError",
    "Event",
    "Ledger",
    "NotBegunError",
    "OtherVersionError",
    "Record",
    "ReplayError",
    "Run",
    "RunError",
    "list_runs",
    "open_read",
]

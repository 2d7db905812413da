"""Runs that survive: the record, the ledger, checkpoints and resume."""

from fedhpo.run.errors import BudgetError, ReplayError, RunError
from fedhpo.run.ledger import Budget, Ledger
from fedhpo.run.record import Event, Record
from fedhpo.run.run import Run, list_runs, open_read

__all__ = [
    "Budget",
    "BudgetError",
    "Event",
    "Ledger",
    "Record",
    "ReplayError",
    "Run",
    "RunError",
    "list_runs",
    "open_read",
]

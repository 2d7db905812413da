"""All errors that fedhpo raises on purpose.

    Exception
    └── FedhpoError
        ├── InputError (also a ValueError)      what you gave is wrong; the message says what is allowed
        │   ├── PreflightError                  model, loss or training would fail on your data
        │   ├── FrozenChanged                   training changed the frozen part of a model
        │   ├── NothingToDrawError              the run says too little for a figure
        │   └── TrialError                      a trial that was not started, or was stopped
        ├── MissingExtraError (an ImportError)  an optional package is not installed
        ├── RunError                            the directory of a run cannot be opened, read or written
        │   ├── NotBegunError                   nothing was recorded yet
        │   ├── OtherVersionError               the run belongs to another version of fedhpo
        │   ├── DamageError                     a file is not as it was written
        │   └── ReplayError                     a call differs from the recorded one
        ├── BudgetError                         a charge would exceed the budget
        ├── TuningError                         no trial could be trained
        ├── WorkersUnavailable                  worker processes cannot do this work
        └── ClientError                         what a client did or sent cannot be used
            ├── Rejected                        a reply that must not be used
            ├── TaskFailed                      the client says that it failed
            ├── TaskMissing                     the client was not done in time
            ├── StrategyFailed                  a Flower strategy made no model of the replies
            ├── CollectiveError                 joint training of boosted trees did not end
            └── NotTrees (also a ValueError)    bytes that are not boosted trees

`StopTuning`, which a callback raises to stop a run, is not an error.

>>> import fedhpo as fh
>>> try:
...     fh.load("digitss")
... except fh.errors.FedhpoError as error:
...     print(type(error).__name__)
InputError
"""

from fedhpo.core.errors import (
    FedhpoError,
    InputError,
    MissingExtraError,
    NothingToDrawError,
    WorkersUnavailable,
)
from fedhpo.core.run_errors import (
    BudgetError,
    DamageError,
    NotBegunError,
    OtherVersionError,
    ReplayError,
    RunError,
)
from fedhpo.protocol.errors import (
    ClientError,
    CollectiveError,
    FrozenChanged,
    NotTrees,
    PreflightError,
    Rejected,
    StrategyFailed,
    TaskFailed,
    TaskMissing,
    TrialError,
    TuningError,
)

__all__ = [
    "BudgetError",
    "ClientError",
    "CollectiveError",
    "DamageError",
    "FedhpoError",
    "FrozenChanged",
    "InputError",
    "MissingExtraError",
    "NotBegunError",
    "NotTrees",
    "NothingToDrawError",
    "OtherVersionError",
    "PreflightError",
    "Rejected",
    "ReplayError",
    "RunError",
    "StrategyFailed",
    "TaskFailed",
    "TaskMissing",
    "TrialError",
    "TuningError",
    "WorkersUnavailable",
]

"""Client policies: which client hyperparameters each member of a cohort gets in a round.

Those of the papers stand with their method: `fedhpo.methods.fedex`, `fedpop`, `fedtune`.
"""

from fedhpo.policies.cooling import Cooling
from fedhpo.policies.fixed import Fixed
from fedhpo.protocol.policy import (
    ClientPolicy,
    LearningState,
    PolicyState,
    Preparing,
    ServerState,
    TimedState,
)

__all__ = [
    "ClientPolicy",
    "Cooling",
    "Fixed",
    "LearningState",
    "PolicyState",
    "Preparing",
    "ServerState",
    "TimedState",
]

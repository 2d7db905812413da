"""Client policies: which client hyperparameters each member of a cohort gets in a round."""

from fedhpo.policies._fedex_state import FedExState
from fedhpo.policies.base import ClientPolicy, LearningState, PolicyState, Preparing
from fedhpo.policies.fedex import FedEx
from fedhpo.policies.fedex_settings import FedExSettings
from fedhpo.policies.fedpop import FedPopLocal, FedPopState
from fedhpo.policies.fixed import Fixed
from fedhpo.policies.landmarks import Landmark
from fedhpo.policies.learned import LearnedPolicy
from fedhpo.policies.reference_table import LookUp

__all__ = [
    "ClientPolicy",
    "FedEx",
    "FedExSettings",
    "FedExState",
    "FedPopLocal",
    "FedPopState",
    "Fixed",
    "Landmark",
    "LearnedPolicy",
    "LearningState",
    "LookUp",
    "PolicyState",
    "Preparing",
]

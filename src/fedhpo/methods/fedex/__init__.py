"""FedEx (Khodak et al., 2021): its policy, its metrics, its section of the report."""

from fedhpo.methods.fedex.ground_truth import GroundTruth
from fedhpo.methods.fedex.landmarks import Landmark
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.settings import FedExSettings
from fedhpo.methods.fedex.state import FedExState

__all__ = ["FedExPolicy", "FedExSettings", "FedExState", "GroundTruth", "Landmark", "LearnedPolicy"]

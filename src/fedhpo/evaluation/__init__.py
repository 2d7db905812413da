"""How a score is observed: what is measured, and at which clients."""

from fedhpo.evaluation.evaluator import Evaluator
from fedhpo.evaluation.objective import Objective, Score, paired_gain

__all__ = ["Evaluator", "Objective", "Score", "paired_gain"]

"""How a score is observed: what is measured, at which clients, and how private it stays."""

from fedhpo.evaluation.channel import Channel
from fedhpo.evaluation.evaluator import Evaluator
from fedhpo.evaluation.objective import Objective, Score, objective_of, paired_gain
from fedhpo.evaluation.privacy import Privacy
from fedhpo.evaluation.private import channel_of

__all__ = [
    "Channel",
    "Evaluator",
    "Objective",
    "Privacy",
    "Score",
    "channel_of",
    "objective_of",
    "paired_gain",
]

"""Client policies: which client hyperparameters each member of a cohort gets in a round."""

from fedhpo.policies.base import ClientPolicy, PolicyState
from fedhpo.policies.fixed import Fixed

__all__ = ["ClientPolicy", "Fixed", "PolicyState"]

"""FedPop (Chen et al., 2025): both of its levels, and its section of the report."""

from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.fedpop.local import FedPopLocal, FedPopState

__all__ = ["Exchange", "FedPopLocal", "FedPopState"]

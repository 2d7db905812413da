"""HPN (Cheng et al., 2023): client hyperparameters from a network, by what is known of a client."""

from fedhpo.methods.hpn.policy import HPN, HPNState

__all__ = ["HPN", "HPNState"]

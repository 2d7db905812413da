"""Successive halving over FedEx on FEMNIST (Khodak et al., 2021)."""

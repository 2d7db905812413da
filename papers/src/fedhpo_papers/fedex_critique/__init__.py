"""Nakka et al. (2023): FedEx, its knobs and how well it ranks."""

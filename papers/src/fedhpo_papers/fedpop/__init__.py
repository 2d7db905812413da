"""FedPop (Chen et al., 2025)."""

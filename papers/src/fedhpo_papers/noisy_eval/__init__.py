"""Kuo et al. (2023): tuning under noisy evaluation."""

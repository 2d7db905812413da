"""Surrogates: models of a score over the unit cube, and what to try next by them."""

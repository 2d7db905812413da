"""Figures of a result, one family a file: how the search went, the space, trials and clients."""

from fedhpo.plots.plots import Plots

__all__ = ["Plots"]

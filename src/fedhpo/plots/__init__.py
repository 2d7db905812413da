"""`result.plot`: the figures of a run as plotly's own, drawn by the functions of `fedhpo.figures`."""

from fedhpo.plots.plots import Plots

__all__ = ["Plots"]

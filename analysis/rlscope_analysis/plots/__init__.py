"""Charts of a trace for notebooks, by Altair, an optional extra."""

from rlscope_analysis.plots.plots import Plots

__all__ = ["Plots"]

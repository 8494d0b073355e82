"""Plots, a module per family. Each takes a run and returns the figures that it has rows for."""

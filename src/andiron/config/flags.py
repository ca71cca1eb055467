"""Hydra's flags by their meaning; Hydra is not imported."""

SWEEPS = {"-m", "--multirun"}

"""Sweeps, screens and commands that read runs: each wing can be deleted with its folder."""

"""A full-screen dashboard of a run, in its own process or another; does not import torch."""

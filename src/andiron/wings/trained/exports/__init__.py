"""Exports a trained model as a checked program or as weights, with a model card."""

"""The configuration: composed by Hydra, checked against dataclasses, built into objects. Nothing here imports torch."""

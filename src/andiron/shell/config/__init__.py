"""The configuration: composed by Hydra and checked. Nothing here imports torch."""

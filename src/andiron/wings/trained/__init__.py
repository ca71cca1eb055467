"""A trained run in Python: its weights in its network, its configuration, values and data."""

"""Configuration to parts: the only place that turns `_target_` into objects."""

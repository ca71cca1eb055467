"""Configuration to components: the only place that turns `_target_` into objects."""

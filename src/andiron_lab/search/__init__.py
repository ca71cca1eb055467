"""Hyperparameter search: optuna proposes a sweep's jobs, from a study in the sweep's folder."""

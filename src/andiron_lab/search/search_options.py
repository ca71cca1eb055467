"""The options of conf/hydra/sweeper/optuna.yaml."""

from dataclasses import dataclass
from typing import Any, Literal

from andiron.ranges import Direction, Seed, Trials

Sampler = Literal["tpe", "random", "qmc"]
Pruner = Literal["median", "percentile", "hyperband", "successive_halving", "wilcoxon"]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How a search proposes, prunes and stores trials."""

    n_trials: Trials = 20
    sampler: Sampler = "tpe"
    sampler_options: dict[str, Any] | None = None
    seed: Seed = 0
    pruner: Pruner | None = None
    pruner_options: dict[str, Any] | None = None
    storage: Literal["sqlite", "journal"] = "sqlite"
    directions: list[Direction] | None = None
    params: dict[str, Any] | None = None

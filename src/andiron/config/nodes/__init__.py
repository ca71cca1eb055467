"""What each shipped `_target_` takes: its arguments, their types and ranges, by dotted name.

A test holds every class here to the signature it describes. Arguments that the run supplies itself (sizes that come
from the data, the horizon of a schedule) may be left null in the config.
"""

from andiron.config.nodes import (
    averages,
    checkpoints,
    classification_metrics,
    early_stopping,
    images,
    metrics,
    models,
    parts,
    schedules,
    tables,
    tasks,
    views,
)
from andiron.config.nodes.kinds import SCHEMAS

__all__ = [
    "SCHEMAS", "averages", "checkpoints", "classification_metrics", "early_stopping", "images", "metrics", "models",
    "parts", "schedules", "tables", "tasks", "views",
]  # fmt: skip

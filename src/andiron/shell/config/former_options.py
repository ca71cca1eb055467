"""Options that only earlier versions had: how their records are read.

>>> current({"checkpoint": {"last": 2, "every": None, "every_updates": 50, "every_epochs": 1}})
{'checkpoint': {'last': 2, 'every': {'updates': 50, 'epochs': 1}}}
>>> current({"data": {"_target_": "andiron.data.csv", "delimiter": ",", "text": "codes"}})
{'data': {'_target_': 'andiron.data.csv', 'text': 'codes'}}
>>> current({"valid_sets_every": None, "valid_sets_metrics": {"night": ["loss"]}})
{'valid_sets_every': None}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from andiron.plain import wings
from andiron.plain.plain_values import Named, Plain
from andiron.shell.config import trust

UNITS = {"every_updates": "updates", "every_epochs": "epochs", "every_minutes": "minutes"}
CSV = "andiron.data.csv"
OF_TABLES: Mapping[str, Sequence[Any]] = {  # values without effect
    "standardise": [True],
    "text": ["one_hot"],
    "delimiter": [None, ",", ";", "\t", "|", " "],
    "units": [None],
}
SETS_METRICS = "valid_sets_metrics"  # all sets have the metrics of the validation data
SCORES = (  # once of the groups classification_full, classification_pictures, binary, multilabel
    "balanced_accuracy", "brier_score", "calibration_error", "cohen_kappa", "hamming_loss",
    "matthews_correlation", "roc_curve",
)  # fmt: skip
# of checkpoints, metrics, tables and validation sets; as overrides left out: the record has values
NAMES = [
    SETS_METRICS,
    *(f"metrics.{name}" for name in SCORES),
    *(f"checkpoint.{name}" for name in UNITS),
    *(f"data.{name}" for name in OF_TABLES),
]


def current(plain: Named) -> Named:
    """The options of a record, with checkpoint.every in place of its former spellings.

    Former options of tables are removed from the nodes if their values had no effect.
    """
    plain = {name: plain[name] for name in plain if name != SETS_METRICS}
    for inner in renamed_nodes(plain):
        for name, without_effect in OF_TABLES.items() if inner["_target_"] == CSV else ():
            if name in inner and inner[name] in without_effect:
                del inner[name]
    node = plain.get("checkpoint")
    if not isinstance(node, dict) or node.keys().isdisjoint(UNITS):
        return plain
    given = {unit: node[name] for name, unit in UNITS.items() if node.get(name) is not None}
    unit, number = next(iter(given.items()), ("epochs", 1))
    single = number if unit == "updates" else f"{number}{unit}"
    known = {name: value for name, value in node.items() if name not in UNITS}
    every = known.get("every") or (given if len(given) > 1 else single)
    return {**plain, "checkpoint": {**known, "every": every}}


def renamed_nodes(plain: Named) -> list[Plain]:
    """The nodes of a configuration, their targets by their current names from now on."""
    nodes: list[Any] = [node for *_, node in trust.nodes(plain)]
    if former_names := wings.optional(f"{wings.LAB}.former_names"):
        former_names.rename(nodes)
    return nodes

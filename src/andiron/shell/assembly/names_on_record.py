"""The names that the inputs and outputs of a network have on record, beside weights and with data.

>>> of_facts({"columns": ["a", "b"], "class_names": ["no", "yes"]})
{'first': ['a', 'b'], 'last': ['no', 'yes']}
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from andiron.disk import files
from andiron.optim.owners.match_rules import FIRST, LAST, described
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record

UNNAMED = re.compile(r"LABEL_\d+")  # what transformers calls classes without names
Names = dict[str, Any]  # by the layer that follows them: `first` or `last`


def of_facts(facts: Mapping[str, Any]) -> Names:
    """The names that the facts of a data set have."""
    encoded = facts.get("encoding", {}).get("columns", ())
    columns = ["=".join([column["column"], *column["categories"]]) for column in encoded]
    first = columns or facts.get("columns") or facts.get("vocabulary")
    return {FIRST: first, LAST: facts.get("class_names") or facts.get("target_columns")}


def beside(weights: Path) -> Names:
    """The names in the record of the run that wrote a file, or in the config.json beside it."""
    try:
        if run := run_record.run_around(weights):
            return of_facts(run_record.read_json(RunFolder(run), RunFolder(run).data))
        settings = files.read_json(weights.with_name("config.json"))
        named = settings.get("id2label") or dict(enumerate(settings["label_names"]))  # timm's
        names = [named[number] for number in sorted(named, key=int)]
        return {} if all(map(UNNAMED.fullmatch, names)) else {LAST: names}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # malformed
        return {}


def layers(model: nn.Module, loaded: Collection[str]) -> dict[str, set[str]]:
    """The first and the last layer, if their weights are `loaded`, by all names that they have."""
    kept: dict[str, set[str]] = {}
    for layer in described(model):
        if layer.tensor.dim() > 1 and not {*layer.names}.isdisjoint(loaded):
            names = {name.rpartition(".")[0].partition(".base_layer")[0] for name in layer.names}
            for end in layer.tags:
                kept[end] = kept.get(end, names) | names
    return kept

"""Other data for a trained run, from overrides of the group `data`; its facts must match.

>>> _fact_differences({"num_classes": 3, "mean": [1.0]}, {"num_classes": 4, "mean": [2.0]})
['num_classes is 4, where the run has 3']
"""

import dataclasses
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from andiron import errors
from andiron.data import ArrayBatcher, ImageBatcher, Mapped, RawBatch, Splits
from andiron.data.on_disk import csv_file, table_splits
from andiron.data.on_disk.text_file import as_known
from andiron.data.splitting import described, fingerprint
from andiron.data.splitting.described import Described
from andiron.data.splitting.divided_rows import columns_of
from andiron.data.splitting.splits import of_parts
from andiron.plain.plain_values import Named, Plain
from andiron.shell.assembly import components
from andiron.shell.config import arguments, composition, project, schema
from andiron.shell.config.leaves import leaves, nested
from andiron.shell.config.schema import Train

# the facts that define a sample and a target
DECIDING = (
    "input_shape", "num_classes", "num_outputs", "class_names", "columns", "target_columns",
    "vocabulary_size", "vocabulary", "tokenizer_sha256", "context_length", "encoding",
)  # fmt: skip
CSV = "andiron.data.csv"
MOST_SHOWN = 200  # characters of a value


def splits(config: Train, overrides: Sequence[str], data: Described, part: str = "test") -> Splits:
    """The data of `overrides`: a choice of the group, or changed options of the run's own data.

    Classes are matched by name. For the `part` "all", every part of a table has all its rows.
    A choice is composed as for training, and may download.
    Raises: ConfigError for wrong overrides; DataError for data that the run does not fit.
    """
    is_chosen = any(text.partition("=")[0] == "data" for text in overrides)
    if is_chosen:
        node = composition.composed(project.default_conf_dir(), [*overrides]).data
        other = dataclasses.replace(config, data=node)
    else:
        other = _with_overrides(config, overrides)
    if other.data["_target_"] == CSV and "columns" in data.facts:
        return _with_run_classes(_encoded_table(other.data, data, part), data)
    with nullcontext() if is_chosen else components.unwritten():
        return _with_run_classes(components.data(other), data)


def _encoded_table(node: schema.Node, data: Described, part: str) -> Splits:
    """The rows of a CSV file, encoded as the training rows were."""
    targets = [node["target"]] if isinstance(node["target"], str) else [*node["target"]]
    path, test, facts = Path(node["path"]), node.get("test", 0.1), dict(data.facts)
    split = node.get("split")
    table = csv_file.read_as(path, facts, targets, node, columns_of(split))
    rows = table_splits.further_set(table, targets, facts)
    if "target_columns" in facts:
        facts["target_columns"] = targets
    named = {"name": path.name, "fingerprint": fingerprint.of_file(path)}
    same: Plain = {"batcher": data.batcher, "facts": facts, **named}
    if part == "all":
        return Splits(train=rows, valid=rows, test=rows, **same)
    classes = rows.targets if "class_names" in facts else None
    try:
        division = table_splits.division_of(table, split, classes)
        parts = division.parts(
            valid=node["valid"],
            test=None if isinstance(test, str) else test,
            split_seed=node["split_seed"],
        )
    except errors.DataError as error:
        raise errors.DataError(f"{error}; split=all measures all rows") from error
    other = of_parts(rows.subset, parts, division=division, **same)
    return csv_file.with_files(other, targets, test, node.get(schema.SETS), node)


def _with_overrides(config: Train, overrides: Sequence[str]) -> Train:
    """The configuration with these options of its data set changed."""
    flat = dict(leaves(config.data))
    problems = []
    for text in overrides:
        override = arguments.parsed_override(text)
        path = tuple(text.partition("=")[0].lstrip("+").split(".")[1:])
        if override is None or override.is_sweep_override() or not path:
            problems.append(f"{text}: cannot be read as data.<option>=<value>")
        else:
            flat[path] = override.value()
    changed = dataclasses.replace(config, data=nested(flat))
    for option, line in schema.problems(dataclasses.asdict(changed)).items():
        if option.partition(".")[0] == "data":
            problems.append(line)
    if problems:
        raise errors.ConfigError(problems)
    return changed.with_absolute_paths()


def _with_run_classes(other: Splits, data: Described) -> Splits:
    """The data set with targets renumbered to the classes of the run.

    Raises: DataError for samples or classes other than the run's, or numbers in another range.
    """
    ours, theirs = data.facts.get("class_names"), other.facts.get("class_names")
    facts = {**other.facts}
    is_scaled = all(isinstance(side.batcher, ImageBatcher) for side in (data, other))
    units = {_unit(data), _unit(described.of_splits(other))}
    if ours and theirs and ours != theirs and set(theirs) <= set(ours):
        places = torch.tensor([ours.index(name) for name in theirs])

        def renumbered(raw: RawBatch) -> RawBatch:
            return RawBatch(raw.inputs, places[raw.targets])

        other = other.mapped(lambda part: Mapped(part, renumbered))
        facts |= {name: data.facts[name] for name in ("class_names", "num_classes")}
    if data.facts.get("vocabulary") and other.facts.get("vocabulary"):
        other = other.mapped(lambda part: as_known(part, other.facts, data.facts, other.name))
        facts |= {name: data.facts[name] for name in ("vocabulary", "vocabulary_size")}
    differences = _fact_differences(data.facts, facts)
    if not is_scaled and len(units - {None}) > 1:
        differences.append("its stored numbers have another range than the run has")
    if differences:
        raise errors.DataError(
            f"data {other.name}: {'; '.join(differences)}: the run cannot be measured on it"
        )
    return other


def _unit(data: Described) -> float | None:
    """The divisor of stored numbers: white of pixels and bytes, otherwise 1; None if unknown."""
    if isinstance(data.batcher, ImageBatcher):
        return data.batcher.scale
    if not isinstance(data.batcher, ArrayBatcher) or data.input_dtype is None:
        return None
    return 255.0 if data.input_dtype == "uint8" else 1.0


def _fact_differences(ours: Named, theirs: Named) -> list[str]:
    """A line for each deciding fact that differs."""

    def plain(value: object) -> Any:
        return json.loads(json.dumps(value))  # as data.json has it

    return [
        f"{name} is {str(plain(theirs.get(name)))[:MOST_SHOWN]}, where the run has "
        f"{str(plain(ours[name]))[:MOST_SHOWN]}"
        for name in DECIDING
        if name in ours and plain(theirs.get(name)) != plain(ours[name])
    ]

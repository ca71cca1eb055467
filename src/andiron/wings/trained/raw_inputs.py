"""Raw inputs as samples as in training: pictures, arrays, tables, texts.

>>> from andiron.data import ImageBatcher
>>> from andiron.data.on_disk.columns import DETECTED
>>> data = Described("digits", ImageBatcher(0.5, 0.5, 16.0), {"input_shape": (1, 8, 8)}, 256)
>>> samples = of(torch.zeros(3, 1, 8, 8), data, DETECTED)
>>> len(samples.dataset), samples.names
(3, ['0', '1', '2'])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data import ArrayDataset, ImageBatcher, from_torch
from andiron.data.dataset import Batcher, Dataset
from andiron.data.on_disk import csv_file, image_decoding, image_tree
from andiron.data.on_disk.columns import Layout, is_frame
from andiron.data.on_disk.table_encoding import TableEncoding
from andiron.data.on_disk.text_file import TextBatcher
from andiron.data.splitting.described import Described
from andiron.wings.trained.input_datasets import Pictures, Texts, tokenised

NO_INPUTS = "there are no inputs to predict from; give one or more"
PICTURE_SCALE = 255.0  # of pixels of files and PIL images


@dataclass(frozen=True)
class Samples:
    """Inputs without targets: their data set, their names, and their batcher."""

    dataset: Dataset
    names: Sequence[str]
    batcher: Batcher
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)  # columns of a table, by name
    refused: Sequence[str] = ()  # why rows of a table are no samples
    # why samples could not be predicted, by index; filled as batches are made
    unreadable: dict[int, str] = field(default_factory=dict)
    comes_alone: bool = False  # samples cannot share a batch

    @property
    def problems(self) -> list[str]:
        """Why inputs have no prediction."""
        return [*self.refused, *self.unreadable.values()]


def of(
    inputs: Any, data: Described, layout: Layout, keep: Sequence[str] = ()
) -> Samples:
    """The samples in `inputs`: one or several.

    Pictures are files, folders of files, or PIL images; rows of a table are mappings by column, a
    data frame, or a CSV file (its content as bytes); texts are strings, or files as `Path`. Arrays
    hold samples as the data stores them. `layout` is of CSV files. `keep` are columns of a table
    that come with its predictions. Other mappings are samples with their fields.
    Raises: DataError for inputs of any other kind, or if no row of a table is valid.
    """
    samples = _samples(inputs, data, layout, keep)
    if keep and not samples.kept:
        raise errors.DataError(
            f"keep={', '.join(keep)}: these inputs are not rows of a table with columns; leave it "
            "out"
        )
    return samples


def _samples(inputs: Any, data: Described, layout: Layout, keep: Sequence[str]) -> Samples:
    if "columns" in data.facts:
        inputs = _named(inputs)
        if is_frame(inputs):
            return _row_samples([inputs], data, layout, keep)
    if isinstance(inputs, Tensor) or (hasattr(inputs, "__array__") and not _is_picture(inputs)):
        return _array_samples(torch.as_tensor(inputs), data)
    is_one = isinstance(inputs, str | Path | bytes | Mapping) or _is_picture(inputs)
    samples = [inputs] if is_one else list(inputs)
    if not samples:
        raise errors.DataError(NO_INPUTS)
    first = samples[0]
    is_text = isinstance(first, str | Path)
    if "columns" in data.facts and (is_text or isinstance(first, bytes | Mapping)):
        return _row_samples(samples, data, layout, keep)
    if isinstance(first, Mapping):
        names = [*map(str, range(len(samples)))]
        return Samples(from_torch(samples), names, data.batcher)
    if is_text and isinstance(data.batcher, TextBatcher):
        texts = Texts(samples, data.facts.get("vocabulary"), int(data.facts["context_length"]))
        return Samples(texts, texts.names, data.batcher, comes_alone=not texts.is_even)
    if is_text and "tokenizer" in data.facts and not isinstance(data.batcher, ImageBatcher):
        rows = tokenised(samples, data.facts["tokenizer"])
        return Samples(from_torch(rows), [*map(str, samples)], data.batcher, comes_alone=True)
    if is_text or _is_picture(first):
        return _picture_samples(samples, data)
    try:
        return _array_samples(torch.stack([torch.as_tensor(sample) for sample in samples]), data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise errors.DataError(
            f"inputs of type {type(first).__name__} are not samples of {data.name} ({error}); "
            f"give {_expected_inputs(data)}"
        ) from error


def _named(inputs: Any) -> Any:
    """Lazy and Arrow tables as frames and mappings, rows of pandas as mappings by column."""
    if isinstance(inputs, list):
        return [*map(_named, inputs)]
    methods = [] if is_frame(inputs) else ["collect", "to_pylist", "to_dict", "_asdict"]
    return next((getattr(inputs, name)() for name in methods if hasattr(inputs, name)), inputs)


def _is_picture(value: Any) -> bool:
    return hasattr(value, "getbands") and hasattr(value, "convert")  # of PIL, not imported here


def _expected_inputs(data: Described) -> str:
    shape = [*data.facts.get("input_shape", ())]
    if "input_shape" not in data.facts:
        return "run.predict in Python a list of samples, such as mappings by field, or arrays"
    if isinstance(data.batcher, TextBatcher):
        return "texts, or arrays of tokens [number, time]"
    if "columns" in data.facts:
        columns = ", ".join(map(str, data.facts["columns"]))
        return f"a CSV file, or mappings with the columns {columns}, or arrays [number, {shape[0]}]"
    picture = "files or PIL images, or " if len(shape) == 3 and shape[0] in (1, 3) else ""
    return f"{picture}arrays of shape {['number', *shape]}".replace("'", "")


def _array_samples(inputs: Tensor, data: Described) -> Samples:
    """Samples as the data stores them; a single sample gets a batch dimension."""
    shape = torch.Size(data.facts.get("input_shape", inputs.shape[1:]))
    is_text = isinstance(data.batcher, TextBatcher)
    if inputs.dim() == len(shape) and (is_text or inputs.shape == shape):
        inputs = inputs[None]
    if inputs.dim() != len(shape) + 1 or not (is_text or inputs.shape[1:] == shape):
        raise errors.DataError(
            f"inputs of shape {[*inputs.shape]} are not samples of {data.name}; "
            f"give {_expected_inputs(data)}"
        )
    if not len(inputs):
        raise errors.DataError(NO_INPUTS)
    if "columns" in data.facts or (data.input_dtype or "").startswith("float"):
        inputs = inputs.float()
    return _tensor_samples(inputs, data.batcher, [*map(str, range(len(inputs)))])


def _tensor_samples(inputs: Tensor, batcher: Batcher, names: Sequence[str]) -> Samples:
    return Samples(ArrayDataset(inputs, torch.zeros(len(inputs), dtype=torch.long)), names, batcher)


def _picture_samples(inputs: Sequence[Any], data: Described) -> Samples:
    shape = tuple(data.facts.get("input_shape", ()))
    is_image_data = isinstance(data.batcher, ImageBatcher) or data.input_dtype == "uint8"
    if not (len(shape) == 3 and shape[0] in image_decoding.MODES and is_image_data):
        raise errors.DataError(
            f"pictures are not samples of {data.name}, of shape {[*shape]} and type "
            f"{data.input_dtype}; give {_expected_inputs(data)}"
        )
    pictures: list[Any] = []
    for picture in inputs:
        is_folder = isinstance(picture, str | Path) and Path(picture).is_dir()
        pictures += image_tree.images_below(Path(picture)) if is_folder else [picture]
    names = [str(picture) if isinstance(picture, str | Path) else f"picture {number}"
             for number, picture in enumerate(pictures)]  # fmt: skip
    batcher = data.batcher
    if isinstance(batcher, ImageBatcher):
        batcher = replace(batcher, scale=PICTURE_SCALE)  # the data may store another range
    dataset = Pictures(pictures, names, shape, data.facts.get("resizing", {}))
    return Samples(dataset, names, batcher, unreadable=dataset.unreadable)


def _row_samples(
    inputs: Sequence[Any], data: Described, layout: Layout, keep: Sequence[str]
) -> Samples:
    """The columns used in training, encoded as then; others than `keep` are ignored."""
    encoding = TableEncoding.of_facts(data.facts)
    options: dict[str, Any] = {
        "features": [feature.column for feature in encoding.columns], "texts": (), "kept": keep,
        "reading": encoding.reading, "missing": encoding.missing, "layout": layout,
        "is_partial": True,
    }  # fmt: skip
    sources: list[Any] = [Path(each) if isinstance(each, str) else each
                          for each in inputs if not isinstance(each, Mapping)]  # fmt: skip
    mappings = [row for row in inputs if isinstance(row, Mapping)]
    tables = [
        csv_file.read(source, **options) for source in (*sources, *filter(None, [mappings]))
    ]
    for table in tables:
        encoding.warn_of_unknown_categories(table)
    encoded = torch.cat([encoding.inputs(table) for table in tables]).float()
    names = [table.row_name(row) for table in tables for row in range(len(table.numbers))]
    kept = {name: [text for table in tables for text in table.kept[name]] for name in keep}
    return replace(
        _tensor_samples(encoded, data.batcher, names),
        kept=kept,
        refused=[table.refused for table in tables if table.refused],
        unreadable={
            int(row): f"{names[row]}: input {encoding.names[column]!r} is too large for float32; "
            "correct it, or remove the row"
            for row, column in (~encoded.isfinite()).nonzero().flip(0).tolist()
        },
    )

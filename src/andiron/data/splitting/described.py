"""The record of a data set in a run folder: its facts, and its preprocessing.

It is enough to build and feed a network without the training samples.

>>> from andiron.data.sources.digits import digits
>>> plain = as_plain(digits(valid=0.1, split_seed=0))
>>> plain["num_classes"], plain["preprocessing"]["batcher"]["std"]
(10, 0.376)
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from andiron.data.batchers import ArrayBatcher, ImageBatcher
from andiron.data.dataset import Batcher
from andiron.data.on_disk.text_file import TextBatcher
from andiron.data.splitting.splits import Splits, offered
from andiron.plain.plain_values import Named, Plain
from andiron.protocols import batch_size_of

PREPROCESSING = "preprocessing"  # beside the facts
BATCHERS = {batcher.__name__: batcher for batcher in (ArrayBatcher, ImageBatcher, TextBatcher)}


@dataclass(frozen=True)
class Described:
    """A data set without its samples; the fields are as in `Splits`.

    `input_dtype` is the type of the stored inputs, such as uint8; None if it is not known.
    `options` is the data set's node in the configuration, if it has one.
    """

    name: str
    batcher: Batcher
    facts: Named
    evaluation_batch_size: int
    input_dtype: str | None = None
    class_counts: list[int] | None = None
    options: Named = field(default_factory=dict, compare=False)

    @property
    def offered(self) -> Plain:
        """The facts for networks and losses: see `Splits.offered`."""
        return offered(self.facts, self.batcher, self.class_counts)


def of_splits(splits: Splits) -> Described:
    """The record of this data set; its batcher may be a user's own."""
    return Described(
        splits.name,
        splits.batcher,
        splits.facts,
        splits.evaluation_batch_size,
        _input_dtype(splits.train),
        splits.class_counts,
    )


def of_loader(loader: object) -> Described:
    """The record of a data set of which only the loader of its training part is known."""
    dataset, batcher = getattr(loader, "dataset", loader), getattr(loader, "batcher", None)
    inputs: Any = getattr(dataset, "inputs", None)
    is_known = batcher is not None and isinstance(inputs, Tensor)
    return Described(
        type(dataset).__name__,
        batcher or ArrayBatcher(),
        {"input_shape": [*inputs.shape[1:]]} if is_known else {},
        batch_size_of(loader) or 1,
        _input_dtype(dataset) if is_known else None,
    )


def _input_dtype(dataset: object) -> str | None:
    inputs = getattr(dataset, "inputs", None)
    dtype = getattr(inputs, "portable_dtype", getattr(inputs, "dtype", None))
    return None if dtype is None else str(dtype).removeprefix("torch.")


def as_plain(data: Splits | Described) -> Plain:
    """The content of data.json: the facts, and the preprocessing unless it is a user's code.
    """
    described = of_splits(data) if isinstance(data, Splits) else data
    batcher: Any = described.batcher
    if type(batcher) not in BATCHERS.values():
        return dict(described.facts)
    preprocessing = {
        "batcher": {"kind": type(batcher).__name__, **dataclasses.asdict(batcher)},
        "evaluation_batch_size": described.evaluation_batch_size,
        "input_dtype": described.input_dtype,
        "class_counts": described.class_counts,
    }
    return {**described.facts, PREPROCESSING: preprocessing}

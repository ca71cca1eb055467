"""New inputs without targets as samples, and the abstract kind of data that makes them."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from andiron import errors
from andiron.data.composed.torch_samples import from_torch
from andiron.data.dataset import ArrayDataset, Batcher, Dataset
from andiron.data.splitting.described import Described

NO_INPUTS = "there are no inputs to predict from; give one or more"


@dataclass(frozen=True)
class NewSamples:
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


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of data set without its samples, made from the `data` on record in a run's folder.

    Wings ask it how new inputs are prepared; `recorded_kind.of` chooses the kind of a record.
    """

    data: Described
    takes_texts: ClassVar[bool] = False  # arguments of a command are texts, or files of text

    @property
    @abstractmethod
    def expected(self) -> str:
        """The inputs that `samples` takes, for messages."""

    @property
    def card(self) -> str:
        """How inputs are changed before the batcher, for a model card."""
        return ""

    @abstractmethod
    def own_samples(self, inputs: Sequence[Any], keep: Sequence[str]) -> NewSamples | None:
        """The samples, unless the inputs are arrays or mappings as the data set stores them."""

    def samples(self, inputs: Any, keep: Sequence[str] = ()) -> NewSamples:
        """The samples in `inputs`, one or several; `keep` are columns to return with them.

        Raises: DataError for inputs of another kind.
        """
        is_one = isinstance(inputs, str | Path | bytes | Mapping) or is_picture(inputs)
        given = [inputs] if is_one or is_array(inputs) else list(inputs)
        if not given:
            raise errors.DataError(NO_INPUTS)
        own = self.own_samples(given, keep)
        return self._stored_samples(inputs if is_array(inputs) else given) if own is None else own

    def read_stdin(self) -> list[Any]:
        """The inputs that a command gets on standard input: a path on each line."""
        return [*filter(None, sys.stdin.read().split("\n"))]

    def _stored_samples(self, inputs: Any) -> NewSamples:
        """Samples as the data set stores them; a single one gets a batch dimension."""
        data = self.data
        if not is_array(inputs) and isinstance(inputs[0], Mapping):
            names = [*map(str, range(len(inputs)))]
            return NewSamples(from_torch(inputs), names, data.batcher)
        samples = torch.as_tensor(inputs) if is_array(inputs) else self._stacked(inputs)
        shape = torch.Size(data.facts.get("input_shape", samples.shape[1:]))
        if samples.dim() == len(shape) and (self.takes_texts or samples.shape == shape):
            samples = samples[None]
        is_fitting = self.takes_texts or samples.shape[1:] == shape  # texts have any length
        if samples.dim() != len(shape) + 1 or not is_fitting:
            raise errors.DataError(
                f"inputs of shape {[*samples.shape]} are not samples of {data.name}; "
                f"give {self.expected}"
            )
        if not len(samples):
            raise errors.DataError(NO_INPUTS)
        if (data.input_dtype or "").startswith("float"):
            samples = samples.float()
        return of_tensor(samples, data.batcher)

    def _stacked(self, samples: Sequence[Any]) -> Tensor:
        try:
            return torch.stack([torch.as_tensor(sample) for sample in samples])
        except (TypeError, ValueError, RuntimeError) as error:
            raise errors.DataError(
                f"inputs of type {type(samples[0]).__name__} are not samples of {self.data.name} "
                f"({error}); give {self.expected}"
            ) from error


def of_tensor(
    inputs: Tensor, batcher: Batcher, names: Sequence[str] | None = None
) -> NewSamples:
    """Samples in memory, one for each row of `inputs`, by default with its number as its name."""
    targets = torch.zeros(len(inputs), dtype=torch.long)
    names = [*map(str, range(len(inputs)))] if names is None else names
    return NewSamples(ArrayDataset(inputs, targets), names, batcher)


def is_picture(value: object) -> bool:
    """Whether a value is a picture of PIL, which is not imported here."""
    return hasattr(value, "getbands") and hasattr(value, "convert")


def is_array(value: object) -> bool:
    """Whether a value is a tensor, or an array of another library."""
    return hasattr(value, "__array__") and not is_picture(value)

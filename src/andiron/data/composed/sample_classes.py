"""The classes that a torch data set names, and the class of each of its samples."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Classes


def names_of(dataset: object) -> Any:
    """The names of the classes of a data set, if it says which they are."""
    while isinstance(dataset, torch.utils.data.Subset):  # as random_split gives
        dataset = dataset.dataset
    named = _class_lists(dataset)
    is_target = "labels" in (getattr(dataset, "features", None) or ())
    chosen = [named.get("labels")] if is_target else [*named.values()]
    only = chosen[0] if len(chosen) == 1 else None
    return getattr(dataset, "classes", None) or only


def check_alike(part: str, dataset: object, train: object) -> None:
    """Refuses a data set in which a class has another number than in `train`."""
    known = _class_lists(train)
    for field, names in _class_lists(dataset).items():
        for number, (name, other) in enumerate(zip(names, known.get(field, ()))):
            if name != other:
                raise errors.DataError(
                    f"data.{part}: class {number} in its {field} is {name!r}, and in data.train "
                    f"{other!r}; number the classes of both alike"
                )


def _class_lists(dataset: object) -> dict[str, list[Any]]:
    """The list `classes`, as torchvision has, and the names of ClassLabels, by field."""
    features = getattr(dataset, "features", None)
    kinds = features.items() if isinstance(features, Mapping) else ()
    named = {field: getattr(getattr(kind, "feature", kind), "names", None) for field, kind in kinds}
    named["classes"] = getattr(dataset, "classes", None)
    return {field: names for field, names in named.items() if isinstance(names, list)}


def of_samples(dataset: Any) -> Classes | None:
    """The class of every sample, from 0 on, if `targets` are whole numbers.

    Used only to divide the samples, so a transform of the targets does not matter.
    """
    targets = getattr(dataset, "targets", None)
    values = targets.tolist() if isinstance(targets, Tensor) else targets
    if isinstance(values, list | tuple) and len(values) == len(dataset):
        if all(isinstance(value, int) for value in values):
            return torch.unique(torch.tensor(values), return_inverse=True)[1]
    return None

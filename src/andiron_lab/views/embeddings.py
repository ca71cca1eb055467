"""Embeddings: the features of samples at the input of a model's last linear layer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from andiron import errors, inference
from andiron.metrics.classification.pictures import pixels
from andiron.outputs import ClassificationOutput, named
from andiron.protocols import Embeddings, Loader
from andiron_lab.batch_pictures import tiled

LARGEST_PICTURE = 64  # pixels a side


def check_whole(model: nn.Module) -> None:
    """Raises: MismatchError for a model of which this process has parts, which all gather."""
    if any(hasattr(module, "unshard") for module in model.modules()):
        why = "one process has only parts of the model (strategy=fsdp)"
        raise errors.MismatchError(f"{why}; start it with the finished run")


def embeddings(
    model: nn.Module, loader: Loader, most: int, class_names: Sequence[str] | None = None
) -> Embeddings:
    """Features of the first `most` samples, with their targets, predicted classes and pictures.

    Without a linear layer, the outputs; features of a sequence are averaged over its positions.
    Raises: MismatchError for a model without features per sample.
    """
    check_whole(model)
    features, pictures = list[Tensor](), list[Tensor]()
    columns: dict[str, list[str]] = {}
    taken: list[Any] = []  # the input of the linear layer that was called last

    def take(module: nn.Module, inputs: Any) -> None:
        if isinstance(module, nn.Linear):
            taken[:] = inputs[:1]

    hook = hooks.register_module_forward_pre_hook(take)
    with hook, inference.valid(model), inference.uncompiled():
        for batch in loader.epoch(0):
            taken.clear()
            item = model.valid_step(batch)  # type: ignore[operator]
            inputs = getattr(batch, "inputs", None)
            features.append(_features(model, item, taken, inputs))
            for name, labels in _labels(item, class_names).items():
                columns.setdefault(name, []).extend(labels)
            if isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[1] in (1, 3):
                pictures.append(pixels(inputs.float(), LARGEST_PICTURE).cpu())
            if sum(map(len, features)) >= most:
                break
    points = torch.cat(features)[:most].clone()
    shown = {"sample": [*map(str, range(len(points)))]}
    shown |= {name: labels[:most] for name, labels in columns.items()}
    if not pictures:
        return Embeddings(points, shown)
    images = torch.cat(pictures)[:most]
    in_square = tiled(images, columns=math.ceil(math.sqrt(len(images))))
    _, _, height, width = images.shape
    return Embeddings(points, shown, in_square, (height, width))


def _features(
    model: nn.Module, item: object, taken: Sequence[object], inputs: object
) -> Float[Tensor, "batch features"]:
    features = taken[0] if taken else getattr(item, "output", None)
    samples = len(inputs) if isinstance(inputs, Tensor) else None
    if not isinstance(features, Tensor) or not features.ndim or len(features) != samples:
        why = "gives no features of each sample; leave out writers.tensorboard.embeddings"
        raise errors.MismatchError(f"{type(model).__name__} {why}")
    return features.float().reshape(len(features), -1, features.shape[-1]).mean(1).cpu()


def _labels(item: object, class_names: Sequence[str] | None) -> Mapping[str, list[str]]:
    """The target and predicted class of each sample; empty for targets of several values."""
    targets = getattr(item, "targets", None)
    if isinstance(item, ClassificationOutput):
        names = dict(enumerate(named(class_names, item.output.shape[-1])))
        indices = {"target": item.targets.tolist(), "predicted": item.output.argmax(-1).tolist()}
        return {
            title: [names.get(label, str(label)) for label in labels]
            for title, labels in indices.items()
        }
    if isinstance(targets, Tensor) and targets.numel() == len(targets):
        return {"target": [f"{value:g}" for value in targets.flatten().tolist()]}
    return {}

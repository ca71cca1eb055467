"""The classification and segmentation networks of torchvision, adapted to the data."""

import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference
from andiron.disk import guarded_folders
from andiron.models import shapes
from andiron.plain.plain_values import Plain
from andiron.recording import keep_arguments

# further outputs in training, which are not built here
AUXILIARY = ("aux1.", "aux2.", "AuxLogits.", "aux_classifier.")
# how DenseNet's weights are stored: norm.1 is norm1 now
OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
_are_read: ContextVar[bool] = ContextVar("are_read", default=True)


@contextmanager
def pretrained_unread() -> Iterator[None]:
    """A context in which networks are built without pretrained weights, to load others.
    """
    token = _are_read.set(False)
    try:
        yield
    finally:
        _are_read.reset(token)


def are_read() -> bool:
    """Whether networks read pretrained weights."""
    return _are_read.get()


@keep_arguments
def torchvision(
    name: str, input_shape: Sequence[int], num_outputs: int, *, weights: str | None = None
) -> nn.Module:
    """The network `torchvision.models.<name>` with `num_outputs` outputs, for images of this shape.

    `weights` names a set of torchvision's pretrained weights (`DEFAULT` is its best), read from
    torch's hub folder or downloaded there; None starts from random ones. The last layer is always
    new. Unless images have 3 channels, the first convolution is new too: random, or, with weights w
    for red, green and blue, sum(w) / channels for each channel, which keeps the outputs for grey
    images. Networks of `torchvision.models.segmentation` give [batch outputs height width]. All go
    without auxiliary outputs.
    Raises: ValueError if there is no such network or set, or the network cannot read such images;
    DataError if the weights are damaged, or missing and cannot be downloaded.
    """
    channels, height, _ = shapes.of_images(input_shape, name)
    chosen = _weights(name, weights)
    network = _built(name, input_shape, num_outputs, is_pretrained=chosen is not None)
    first = next(key for key, layer in network.named_modules() if isinstance(layer, nn.Conv2d))
    if channels != 3:
        _replace_convolution(network, first, channels)
    if chosen is not None and are_read():
        state = _adapt(_state(chosen), f"{first}.weight", channels)
        if "encoder.pos_embedding" in state:
            from torchvision.models import vision_transformer as vit

            state = vit.interpolate_embeddings(height, network.patch_size, state)
        _load(network, state, weights=chosen)
    check_images(network, name, input_shape)
    return network


def _preprocessing(name: str, weights: str | None = None, **_: object) -> Plain:
    """How the weights expect pictures; see `libraries`."""
    if (chosen := _weights(name, weights)) is None:
        return {}
    wanted = chosen.transforms()
    pixels = {"mean": (*wanted.mean,), "std": (*wanted.std,)}
    if not hasattr(wanted, "crop_size"):  # for masks: any size
        return pixels
    (size,), (before,) = wanted.crop_size, wanted.resize_size
    resizing = {"crop": size / before, "interpolation": wanted.interpolation.value}
    return {"size": size, "resizing": resizing, **pixels}


vars(torchvision)["preprocessing"] = _preprocessing


def _weights(name: str, weights: str | None) -> Any:
    """torchvision's description of the set of weights of that name."""
    from torchvision import models  # imported only here: it takes as long as torch

    networks = models.list_models(module=models) + models.list_models(module=models.segmentation)
    if name not in networks:
        hint = errors.nearest(name, networks) or f"; available: {', '.join(networks)}"
        raise ValueError(
            f"name={name}: torchvision has no network for pictures of that name{hint}"
        )
    if weights is None:
        return None
    sets = models.get_model_weights(name).__members__
    if weights not in sets:
        hint = errors.nearest(weights, sets) or f"; available: {', '.join(sets) or 'none'}"
        raise ValueError(
            f"weights={weights}: torchvision has no such weights for {name} (null starts from "
            f"random ones){hint}"
        )
    return sets[weights]


def _built(
    name: str, input_shape: Sequence[int], num_outputs: int, *, is_pretrained: bool
) -> nn.Module:
    from torchvision import models

    channels, height, width = input_shape
    arguments: Plain = {"num_classes": num_outputs}
    if name in ("googlenet", "inception_v3"):
        # transform_input: from ImageNet's mean and deviation to their training's
        transforms = is_pretrained and channels == 3
        arguments |= {"aux_logits": False, "init_weights": True, "transform_input": transforms}
    elif name.startswith("vit_"):
        arguments["image_size"] = height
    elif name.startswith("maxvit"):
        arguments["input_size"] = (height, width)
    is_of_masks = name in models.list_models(module=models.segmentation)
    if is_of_masks:
        arguments["weights_backbone"] = None
    try:
        network: nn.Module = models.get_model(name, weights=None, **arguments)
    except (ValueError, AssertionError) as error:
        raise _unreadable(name, input_shape, error) from error
    if is_of_masks:
        network.register_forward_hook(_masks)
    return network


def _masks(network: nn.Module, inputs: Any, outputs: Any) -> Tensor:
    """The logits of a segmentation network, which gives them by name."""
    return outputs["out"]


def _replace_convolution(network: nn.Module, name: str, channels: int) -> None:
    old: Any = network.get_submodule(name)
    same = ("kernel_size", "stride", "padding", "dilation", "padding_mode", "out_channels")
    options = {option: getattr(old, option) for option in same}
    new = nn.Conv2d(channels, bias=old.bias is not None, **options)
    network.set_submodule(name, new)


def _state(weights: Any) -> Any:
    """The stored weights, unpickled as tensors only; a download's hash is checked."""
    file = Path(torch.hub.get_dir(), "checkpoints", weights.url.rpartition("/")[2])
    try:
        if not file.is_file():
            guarded_folders.check_writing(file)
        return weights.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        why = f"({errors.first_line(error)})"
        problem = f"{file}: no weights can be read from it {why}; remove it to download it again"
        if not file.is_file():
            problem = (
                f"{weights}: {file} is missing and could not be downloaded from {weights.url} "
                f"{why}; put it there, point TORCH_HOME at the folder whose hub/checkpoints holds "
                "it, or start from random ones (weights=null)"
            )
        raise errors.DataError(problem) from error


def _adapt(state: dict[str, Tensor], first: str, channels: int) -> dict[str, Tensor]:
    """Changes `state` in place to current names and the images' channels, without AUXILIARY.

    In place: the state has version metadata beside the names, which loading reads.
    """
    for name in [*state]:
        weights = state.pop(name)
        if not name.startswith(AUXILIARY):
            state[OLD_DENSENET.sub(r"\1\2", name)] = weights
    if channels != 3 and first in state:
        state[first] = state[first].sum(1, keepdim=True).expand(-1, channels, -1, -1) / channels
    return state


def _load(network: nn.Module, state: dict[str, Tensor], *, weights: object) -> None:
    """Loads all of `state` but the last layer."""
    *_, last = (
        name for name, layer in network.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)
    )
    own = network.state_dict()
    state.update({name: own[name] for name in own if name.startswith(f"{last}.")})
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise errors.DataError(
            f"{weights}: the file has weights of another network: {error}"
        ) from error


def check_images(network: nn.Module, name: str, input_shape: Sequence[int]) -> None:
    """Passes one image of that shape through the network on "meta": nothing is computed."""
    tensors = chain(network.named_parameters(), network.named_buffers())
    shadows = {name: tensor.to("meta") for name, tensor in tensors}
    image = torch.empty(1, *input_shape, device="meta")
    try:
        with inference.valid(network):
            torch.func.functional_call(network, shadows, (image,))
    except (RuntimeError, AssertionError) as error:
        raise _unreadable(name, input_shape, error) from error


def _unreadable(name: str, input_shape: Sequence[int], error: Exception) -> ValueError:
    shown = "x".join(map(str, input_shape[1:]))
    return ValueError(
        f"input_shape={tuple(input_shape)}: {name} cannot read images of {shown} "
        f"({errors.first_line(error)}); give it others (larger, or square), or choose another "
        "network"
    )

"""The classification networks of torchvision, made for the data."""

import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference
from andiron.models import shapes

AUXILIARY = (
    "aux1.",
    "aux2.",
    "AuxLogits.",
)  # further outputs of GoogLeNet and Inception while they train: not built here
OLD_DENSENET = re.compile(
    r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)"
)  # as its weights are stored; norm.1 is norm1 now


def torchvision(
    name: str, input_shape: Sequence[int], num_outputs: int, *, weights: str | None = None
) -> nn.Module:
    """The network of that name in `torchvision.models`, with `num_outputs` outputs and as many input channels as images have.

    `weights` names a set that torchvision has for it (`DEFAULT` is its best), read from torch's hub folder or downloaded
    there; None starts from random ones. The last layer is always new. Where images have another number of channels than
    3, the first convolution is new and random, or, with weights, gets sum(w) / channels for each channel, w its weights for
    red, green and blue: it answers grey images as before. GoogLeNet and Inception go without auxiliary outputs.
    Raises: ValueError if there is no such network or set, or the network cannot read such images; DataError if the weights
    are damaged, or missing and cannot be downloaded.
    """
    channels, _, _ = shapes.of_images(input_shape, name)
    chosen = _weights(name, weights)
    network = _built(name, input_shape, num_outputs, is_pretrained=chosen is not None)
    if channels != 3:
        _replace_first_convolution(network, channels)
    if chosen is not None:
        _load(network, _state(chosen), weights=chosen, input_shape=input_shape)
    _check_images(network, name, input_shape)
    return network


def _weights(name: str, weights: str | None) -> Any:
    """The set of weights of that name for this network, as torchvision describes it."""
    from torchvision import (
        models,
    )  # takes as long to import as torch: only who asks for one of its networks waits for it

    known = models.list_models(module=models)
    if name not in known:
        hint = errors.nearest(name, known) or f"; there are: {', '.join(known)}"
        raise ValueError(
            f"name={name}: torchvision has no classification network of that name{hint}"
        )
    sets = models.get_model_weights(name).__members__
    if weights is not None and weights not in sets:
        hint = errors.nearest(weights, sets) or f"; there are: {', '.join(sets) or 'none'}"
        raise ValueError(
            f"weights={weights}: torchvision has no such weights for {name} (null starts from random ones){hint}"
        )
    return None if weights is None else sets[weights]


def _built(
    name: str, input_shape: Sequence[int], num_outputs: int, *, is_pretrained: bool
) -> nn.Module:
    from torchvision import models

    channels, height, width = input_shape
    arguments: dict[str, Any] = {"num_classes": num_outputs}
    if name in ("googlenet", "inception_v3"):
        # transform_input: from ImageNet's mean and deviation to those their weights were trained with
        arguments |= {
            "aux_logits": False,
            "init_weights": True,
            "transform_input": is_pretrained and channels == 3,
        }
    elif name.startswith("vit_"):
        arguments |= {"image_size": height}
    elif name.startswith("maxvit"):
        arguments |= {"input_size": (height, width)}
    try:
        network: nn.Module = models.get_model(name, weights=None, **arguments)
    except (ValueError, AssertionError) as error:
        raise _unreadable(name, input_shape, error) from error
    return network


def _replace_first_convolution(network: nn.Module, channels: int) -> None:
    name, old = next(
        (name, module) for name, module in network.named_modules() if isinstance(module, nn.Conv2d)
    )
    options = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    new = nn.Conv2d(
        channels,
        old.out_channels,
        bias=old.bias is not None,
        **{option: getattr(old, option) for option in options},
    )
    network.set_submodule(name, new)


def _state(weights: Any) -> dict[str, Tensor]:
    """The stored weights, unpickled as tensors only; the hash in a file's name is checked when it is downloaded."""
    file = Path(torch.hub.get_dir(), "checkpoints", weights.url.rpartition("/")[2])
    try:
        state: dict[str, Tensor] = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True
        )
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        if file.is_file():
            raise errors.DataError(
                f"{file}: no weights can be read from it ({_first_line(error)}); remove it to download it again"
            ) from error
        raise errors.DataError(
            f"{weights}: {file} is missing and could not be downloaded from {weights.url} ({_first_line(error)}); put it "
            "there, point TORCH_HOME at the folder whose hub/checkpoints holds it, or start from random ones (weights=null)"
        ) from error
    return state


def _load(
    network: nn.Module, state: dict[str, Tensor], *, weights: Any, input_shape: Sequence[int]
) -> None:
    """All of `state` but the last layer into the network."""
    last = [
        name
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    ][-1]
    head = {f"{last}.weight", f"{last}.bias"}
    fitted = _fitted(network, state, input_shape)
    for name in head:
        fitted.pop(name, None)
    try:
        found = network.load_state_dict(fitted, strict=False)
    except RuntimeError as error:
        raise errors.DataError(
            f"{weights}: the file holds weights of another network: {error}"
        ) from error
    stray = [name for name in found.unexpected_keys if not name.startswith(AUXILIARY)]
    strange = [*(name for name in found.missing_keys if name not in head), *stray]
    if strange:
        raise errors.DataError(
            f"{weights}: the file holds weights of another network: only one of them has {strange[0]!r}"
        )


def _fitted(
    network: nn.Module, state: dict[str, Tensor], input_shape: Sequence[int]
) -> dict[str, Tensor]:
    """`state`, changed in place, with its first convolution and its places made for the images."""
    for name in [
        *state
    ]:  # in place: torchvision keeps a version beside the names, which loading asks for
        state[OLD_DENSENET.sub(r"\1\2", name)] = state.pop(name)
    channels, height, _ = input_shape
    first = (
        next(name for name, module in network.named_modules() if isinstance(module, nn.Conv2d))
        + ".weight"
    )
    if channels != 3 and first in state:
        state[first] = state[first].sum(1, keepdim=True).expand(-1, channels, -1, -1) / channels
    if "encoder.pos_embedding" in state:
        from torchvision.models import vision_transformer

        state = vision_transformer.interpolate_embeddings(height, network.patch_size, state)
    return state


def _check_images(network: nn.Module, name: str, input_shape: Sequence[int]) -> None:
    """Reads one image of that shape, without numbers: nothing is computed, nothing drawn."""
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    shadows = {key: tensor.to("meta") for key, tensor in tensors.items()}
    try:
        with inference.valid(network):
            torch.func.functional_call(
                network, shadows, (torch.empty(1, *input_shape, device="meta"),)
            )
    except (RuntimeError, AssertionError) as error:
        raise _unreadable(name, input_shape, error) from error


def _unreadable(name: str, input_shape: Sequence[int], error: Exception) -> ValueError:
    shown = "x".join(map(str, input_shape[1:]))
    return ValueError(
        f"input_shape={tuple(input_shape)}: {name} cannot read images of {shown} ({_first_line(error)}); give it others "
        "(larger, or square), or choose another network"
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")

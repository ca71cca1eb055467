"""Networks of segmentation-models-pytorch, by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from andiron import errors
from andiron.models import shapes, zoo
from andiron.recording import keep_arguments


@keep_arguments
def smp(
    name: str,
    input_shape: Sequence[int],
    num_outputs: int,
    *,
    encoder: str = "resnet34",
    weights: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> nn.Module:
    """The network `name` of segmentation-models-pytorch, such as unet, with this encoder.

    It gives logits [batch outputs height width]. `weights` of the encoder, such as imagenet, are
    downloaded; None starts from random ones. `settings` are further arguments of the network, such
    as `decoder_use_norm`.
    Raises: ValueError for an unknown network, encoder or setting, or if it cannot read such images.
    """
    import segmentation_models_pytorch as library

    channels, *_ = shapes.of_images(input_shape, name)
    chosen = weights if zoo.are_read() else None
    try:
        network = library.create_model(
            name, encoder, chosen, channels, num_outputs, **(settings or {})
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"name={name}: {errors.one_line(error)}") from error
    zoo.check_images(network, name, input_shape)
    return network

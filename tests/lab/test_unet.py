"""The U-Net and the networks of libraries that give masks."""

import pytest
import torch

from andiron.models import torchvision
from andiron_lab.masks import UNet, smp
from refusals import message_of


@pytest.mark.parametrize("size", [(32, 32), (31, 45), (5, 1)])
def test_logits_have_the_size_of_the_image(size):
    network = UNet((1, *size), 3, width=2, depth=3).eval()
    assert network(torch.randn(2, 1, *size)).shape == (2, 3, *size)


def test_a_width_of_64_has_the_parameters_of_the_paper():
    with torch.device("meta"):
        network = UNet((1, 572, 572), 2, width=64)
    convolutions = [weight for weight in network.parameters() if weight.dim() == 4]
    # 23 convolutions, the last of them 1x1
    assert len(convolutions) == 23
    assert sum(weight.numel() for weight in convolutions) == 31_023_808


@pytest.mark.parametrize(
    "build", [
        lambda: torchvision("lraspp_mobilenet_v3_large", (3, 64, 64), 4),
        lambda: torchvision("lraspp_mobilenet_v3_large", (1, 64, 64), 4),
        lambda: smp("fpn", (3, 64, 64), 4, encoder="resnet18"),
    ],
)  # fmt: skip
def test_networks_of_libraries_give_logits_of_each_pixel(build):
    network = build().eval()
    channels = next(network.parameters()).shape[1]
    assert network(torch.randn(2, channels, 64, 64)).shape == (2, 4, 64, 64)


@pytest.mark.parametrize(
    "name, given, words", [
        ("u_net", {}, "name=u_net: "),
        ("unet", {"encoder": "resnet19"}, "Wrong encoder name `resnet19`"),
        ("unet", {"settings": {"depth": 2}}, "depth"),
    ],
)  # fmt: skip
def test_what_segmentation_models_has_not_is_refused(name, given, words):
    assert words in message_of(ValueError, smp, name, (3, 64, 64), 4, **given)

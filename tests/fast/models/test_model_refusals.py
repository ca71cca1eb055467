"""Networks refuse sizes that they cannot have, and inputs that they cannot read."""

import math

import pytest
from torch import nn

from andiron.models import GPT, Dropout, LeNet, ResNet, activation_checkpointing
from andiron.models.zoo import torchvision
from refusals import lacking, message_of

CIFAR = (3, 32, 32)
HEADS = "dim=10 is not divisible by heads=4; each head takes an equal part of dim"
IMAGES = "input_shape={}: {} reads images, of shape (channels, height, width)"
TWO, ONE = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Linear(3, 2)
NO_NAME = "torchvision has no network for pictures of that name; "
NO_WEIGHTS = "torchvision has no such weights for resnet50 (null starts from random ones); "


def unread(name, shape, words):
    """A row of images that a network of torchvision cannot read."""
    shown = f"input_shape={shape}: {name} cannot read images of {shape[1]}x{shape[2]} ("
    remedy = "); give it others (larger, or square), or choose another network"
    return lambda: torchvision(name, shape, 7), f"{shown} ... {words} ... {remedy}"


@pytest.mark.parametrize(("call", "words"), [
    (lambda: activation_checkpointing.apply(TWO, "transformer"),
     "no submodule of Sequential has 'transformer' in its name; available: 0, 1"),
    (lambda: activation_checkpointing.apply(nn.ModuleDict({"head": ONE}), "haed"),
     "no submodule of ModuleDict has 'haed' in its name; did you mean 'head'?"),
    (lambda: activation_checkpointing.apply(ONE, ".*"),
     "no submodule of Linear has '.*' in its name; available: none"),
    (lambda: activation_checkpointing.apply(TWO, "blocks("),
     "'blocks(' is not a valid regex: missing ), unterminated subpattern at position 6"),
    *[(lambda p=p: Dropout(p), f"p={p}: should be {allowed} (Dropout)") for p, allowed in (
        (1.0, "less than 1"), (-0.1, "greater than or equal to 0"), (1.5, "less than 1"),
        (math.nan, "less than 1"), (math.inf, "less than 1"))],
    (lambda: GPT(11, context_length=8, layers=1, dim=10, heads=4), HEADS),
    *[(lambda shape=shape: LeNet(shape, 10), IMAGES.format(shape, "LeNet")
       + "; choose data with images, or a network for vectors, such as MLP")
      for shape in ((64,), (28, 28), (1, 0, 5))],
    (lambda: ResNet((10,), 1), IMAGES.format("(10,)", "ResNet")),
    (lambda: torchvision("resnet18", (10,), 1), IMAGES.format("(10,)", "resnet18")),
    *[(lambda depth=depth: ResNet(CIFAR, 10, depth=depth),
       f"depth={depth}: a ResNet has 6n + 2 layers: ... ; the nearest are {nearest}, the paper's")
      for depth, nearest in ((18, "14 and 20"), (21, "20 and 26"), (2, "8 and 14"))],
    (lambda: torchvision("resnet_18", CIFAR, 7),
     f"name=resnet_18: {NO_NAME}did you mean 'resnet18'?"),
    # no network of torchvision has a name near that
    (lambda: torchvision("fcn", CIFAR, 7), f"{NO_NAME}available: alexnet, convnext_base, "),
    (lambda: torchvision("resnet50", CIFAR, 7, weights="IMAGENET_V2"),
     f"weights=IMAGENET_V2: {NO_WEIGHTS}did you mean 'IMAGENET1K_V2'?"),
    (lambda: torchvision("resnet50", CIFAR, 7, weights="best"),
     "; available: IMAGENET1K_V1, IMAGENET1K_V2, DEFAULT"),
    unread("alexnet", (3, 28, 28), "Output size is too small"),
    unread("inception_v3", CIFAR, "Kernel size can't be greater than actual input size"),
    unread("vit_b_16", (3, 40, 40), "Input shape indivisible by patch size!"),
    unread("vit_b_16", (3, 32, 48), "Wrong image width! Expected 32 but got 48!"),
    unread("maxvit_t", CIFAR, "is not divisible by partition size 7"),
])  # fmt: skip
def test_what_cannot_be_is_refused(call, words):
    assert lacking(words, message_of(ValueError, call)) == []

"""LeNet-5."""

from collections.abc import Sequence

from torch import nn

from andiron.models import shapes
from andiron.models.shapes import Images, Logits
from andiron.recording import keep_arguments

SIDE = 32  # pixels a side that the paper's network reads, 28x28 characters centred in them


@keep_arguments
class LeNet(nn.Module):
    """5x5 convolutions of 6 and 16 channels with 2x2 average pools, three linear layers, tanh.

    Images below 32 pixels a side are centred in zeros, as in the paper; larger ones are read whole,
    so the first linear layer (C5) grows with them. Unlike in the paper, pools have no weights, C3
    sees all channels of S2, tanh is not scaled, and the output is logits, not distances to drawn
    characters.
    Raises: ValueError if input_shape is not a shape of images.
    Source: LeCun, Bottou, Bengio & Haffner 1998, "Gradient-based learning applied to document
    recognition", section II.B.
    """

    def __init__(self, input_shape: Sequence[int], num_outputs: int):
        super().__init__()
        channels, *sides = shapes.of_images(input_shape, "LeNet")
        missing = [max(SIDE - side, 0) for side in sides]
        (top, bottom), (left, right) = ((rows // 2, rows - rows // 2) for rows in missing)
        height, width = ((max(side, SIDE) - 4) // 2 - 4 for side in sides)  # after C1, S2 and C3
        self.features = nn.Sequential(
            nn.ZeroPad2d((left, right, top, bottom)),
            nn.Conv2d(channels, 6, 5), nn.Tanh(), nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(16 * (height // 2) * (width // 2), 120), nn.Tanh(),
            nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, num_outputs),
        )  # fmt: skip

    def forward(self, images: Images) -> Logits:
        return self.head(self.features(images))

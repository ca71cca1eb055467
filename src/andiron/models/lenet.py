"""LeNet-5."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from andiron.models import shapes

SIDE = 32  # pixels: what the paper's network reads; it puts 28x28 characters in the middle of that


class LeNet(nn.Module):
    """Two 5x5 convolutions (6 and 16 channels), each with a 2x2 average pool, and three linear layers, with tanh between.

    An image below 32 pixels a side is put in the middle of zeros, as in the paper; a larger one is read whole, so C5 (the
    first linear layer) grows with it. Other than in the paper: the pools have no weights, C3 sees all channels of S2, tanh
    is not scaled, and the output is linear (logits) instead of distances to drawn characters.
    Raises: ValueError if input_shape is no shape of images.
    Source: LeCun, Bottou, Bengio & Haffner 1998, "Gradient-based learning applied to document recognition", section II.B.
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
            nn.Linear(16 * (height // 2) * (width // 2), 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
            nn.Linear(84, num_outputs),
        )  # fmt: skip

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        logits: Tensor = self.head(self.features(images))
        return logits

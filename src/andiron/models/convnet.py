"""The convolutional network of the Burn book's guide."""

from collections.abc import Sequence

from torch import Tensor, nn

from andiron.models.dropout import Dropout
from andiron.models.shapes import Images, Logits
from andiron.ranges import Count, Fraction


class ConvNet(nn.Module):
    """3x3 convolutions of 8 and 16 channels, average pool to 8x8, two linear layers, dropout.

    Source: the Burn book, "Basic workflow: from training to inference", model section.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_outputs: int,
        *,
        hidden: Count = 512,
        dropout: Fraction = 0.5,
    ):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(input_shape[0], 8, 3), Dropout(dropout),
            nn.Conv2d(8, 16, 3), Dropout(dropout), nn.ReLU(),
            nn.AdaptiveAvgPool2d(8), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(16 * 8 * 8, hidden), Dropout(dropout), nn.ReLU(),
            nn.Linear(hidden, num_outputs),
        )  # fmt: skip

    def forward(self, images: Images) -> Logits:
        logits: Tensor = self.head(self.features(images))
        return logits

"""Pictures for writers, uint8 [channels, height, width], from tensors alone.

>>> tiled(torch.zeros(3, 1, 8, 6, dtype=torch.uint8), 2).shape
torch.Size([1, 16, 12])
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional

# Okabe & Ito 2008, "Color Universal Design": distinguishable with any colour vision
COLOURS = (
    (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167),
    (230, 159, 0), (86, 180, 233), (0, 0, 0), (240, 228, 66),
)  # fmt: skip


def tiled(
    images: UInt8[Tensor, "number channels height width"], columns: int
) -> UInt8[Tensor, "channels rows_height columns_width"]:
    """The images row by row in one picture; the places that are left over are black."""
    number, channels, height, width = images.shape
    rows = -(-number // columns)
    images = torch.cat([images, images.new_zeros(rows * columns - number, *images.shape[1:])])
    grid = images.view(rows, columns, channels, height, width).permute(2, 0, 3, 1, 4)
    return grid.reshape(channels, rows * height, columns * width)


def pixels(
    images: Float[Tensor, "batch channels height width"], largest: int
) -> UInt8[Tensor, "batch channels rows columns"]:
    """Images from their own minimum (0) to their own maximum (255), at most `largest` pixels high.

    Standardised inputs have no range of their own to be shown in.
    """
    step = -(-max(images.shape[2:]) // largest)
    images = functional.avg_pool2d(images, step, ceil_mode=True) if step > 1 else images
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    scaled = (images - low) / torch.where(high > low, high - low, 1.0)
    return (255 * scaled).round().to(torch.uint8)


def line_chart(
    lines: Sequence[tuple[Float[Tensor, " points"], Float[Tensor, " points"]]], size: int = 256
) -> UInt8[Tensor, "3 height width"]:
    """Lines (x, y) in the unit square, on white, each in the next of COLOURS; a grey frame."""
    chart = torch.full((3, size, size), 255, dtype=torch.uint8)
    chart[:, [0, -1], :] = chart[:, :, [0, -1]] = 160
    for number, (x, y) in enumerate(lines):
        lengths = torch.stack([x.diff().abs(), y.diff().abs()]).amax(0)
        place = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        wanted = torch.linspace(0, float(place[-1]), 4 * size, dtype=place.dtype)
        end = torch.searchsorted(place, wanted).clamp(1, len(place) - 1)
        gap = place[end] - place[end - 1]
        share = (wanted - place[end - 1]) / torch.where(gap > 0, gap, 1.0)
        columns, rows = (
            ((each[end - 1] + share * (each[end] - each[end - 1])) * (size - 1)).round().long()
            for each in (x, y)
        )
        colour = torch.tensor(COLOURS[number % len(COLOURS)], dtype=torch.uint8)
        chart[:, size - 1 - rows, columns] = colour[:, None]
    return chart

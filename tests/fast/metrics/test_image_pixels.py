"""Images as pixels of a picture."""

import torch

from andiron.metrics.classification.pictures import pixels


def test_images_are_scaled_from_their_own_range_and_shrunk():
    images = torch.linspace(-3.0, 7.0, 100 * 90).view(1, 1, 100, 90)
    shown = pixels(images, largest=64)
    assert shown.shape == (1, 1, 50, 45) and (int(shown.min()), int(shown.max())) == (0, 255)
    constant = pixels(torch.full((2, 3, 4, 4), 5.0), largest=64)
    assert constant.shape == (2, 3, 4, 4) and int(constant.max()) == 0

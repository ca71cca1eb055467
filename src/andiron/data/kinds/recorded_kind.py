"""The kind of a data set, by its record in a run's folder.

>>> import torch
>>> from andiron.data import ImageBatcher
>>> data = Described("digits", ImageBatcher(0.5, 0.5, 16.0), {"input_shape": (1, 8, 8)}, 256)
>>> samples = of(data).samples(torch.zeros(3, 1, 8, 8))
>>> type(of(data)).__name__, len(samples.dataset), samples.names
('Pictures', 3, ['0', '1', '2'])
"""

from collections.abc import Sequence
from pathlib import Path

from andiron import errors
from andiron.data.batchers import ImageBatcher
from andiron.data.kinds.new_samples import Kind, is_picture
from andiron.data.kinds.picture_files import Pictures
from andiron.data.kinds.rows import Rows
from andiron.data.kinds.texts import Texts
from andiron.data.on_disk import image_decoding
from andiron.data.on_disk.text_file import TextBatcher
from andiron.data.splitting.described import Described


class Arrays(Kind):
    """Arrays of the shape on record, or samples with named fields."""

    @property
    def expected(self) -> str:
        if "input_shape" not in self.data.facts:
            return "run.predict in Python a list of samples, such as mappings by field, or arrays"
        return f"arrays of shape [number, {', '.join(map(str, self.data.facts['input_shape']))}]"

    def own_samples(self, inputs: Sequence[object], keep: Sequence[str]) -> None:
        if isinstance(inputs[0], str | Path) or is_picture(inputs[0]):
            raise errors.DataError(
                f"files and pictures are not samples of {self.data.name}; give {self.expected}"
            )


def of(data: Described) -> Kind:
    """The kind of the data on record."""
    is_image, shape = isinstance(data.batcher, ImageBatcher), data.facts.get("input_shape", ())
    if "columns" in data.facts:
        return Rows(data)
    if isinstance(data.batcher, TextBatcher) or ("tokenizer" in data.facts and not is_image):
        return Texts(data)
    has_pixels = len(shape) == 3 and shape[0] in image_decoding.MODES
    if has_pixels and (is_image or data.input_dtype == "uint8"):
        return Pictures(data)
    return Arrays(data)

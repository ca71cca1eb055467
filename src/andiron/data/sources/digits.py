"""The shipped handwritten digits: 1,797 images of 8x8 pixels, with values from 0 to 16."""

from torch.nn import functional

from andiron.data.batchers import ImageBatcher
from andiron.data.dataset import ArrayDataset, Samples
from andiron.data.sources import shipped
from andiron.data.splitting import splits
from andiron.data.splitting.divided_rows import Division
from andiron.ranges import Count, Seed, Validation
from andiron.recording import keep_arguments

FILE = shipped.FOLDER / "digits.safetensors"
# of FILE; scripts/make_digits.py prints it
SHA256 = "95274737889feef31a0617050ea39e37abfd4998f2dfe421832ccbd4ea03a1e8"
SIZE = 8  # pixels a side
TEST_FRACTION = 0.2


@keep_arguments
def digits(*, valid: Validation, split_seed: Seed, size: Count = 8) -> splits.Splits:
    """The digits, a fifth of each class held out as the test set; enlarged to `size` x `size`.

    Source: E. Alpaydin & C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository, doi:10.24432/C50P49 (CC BY 4.0), as bundled with scikit-learn.
    Raises: DataError if the file is missing or is not the shipped one.
    """
    tensors = shipped.load(FILE, SHA256)
    everything = ArrayDataset(_enlarged(tensors["images"], size), tensors["targets"].long())
    division = Division(len(everything), classes=everything.targets)
    parts = division.parts(valid=valid, test=TEST_FRACTION, split_seed=split_seed)
    return splits.of_parts(
        everything.subset,
        parts,
        name="digits",
        batcher=ImageBatcher(mean=0.3053, std=0.3760, scale=16.0),  # of all pixels / 16
        facts={"input_shape": (1, size, size), "num_classes": 10},
        fingerprint=SHA256,
    )


def _enlarged(images: Samples, size: int) -> Samples:
    """The images [batch, 1, 8, 8] interpolated bilinearly, rounded to whole pixel values."""
    if size == SIZE:
        return images
    enlarged = functional.interpolate(images.float(), size=(size, size), mode="bilinear")
    return enlarged.round().to(images.dtype)

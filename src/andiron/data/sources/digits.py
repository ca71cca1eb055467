"""The handwritten digits that come with the package: 1,797 images of 8x8 pixels, 0 to 16."""

import hashlib
from importlib import resources
from pathlib import Path

from jaxtyping import Shaped
from torch import Tensor
from torch.nn import functional

from andiron import errors, serialization
from andiron.data import splits
from andiron.data.arrays import ArrayDataset
from andiron.data.batcher import ImageBatcher
from andiron.data.splits import Splits
from andiron.ranges import Count, Seed, Validation

FILE = Path(str(resources.files("andiron.data.sources"))) / "digits.safetensors"
SHA256 = "95274737889feef31a0617050ea39e37abfd4998f2dfe421832ccbd4ea03a1e8"  # of FILE; scripts/make_digits.py prints it
SIZE = 8  # pixels a side
TEST_FRACTION = 0.2
TEST_SEED = 0  # fixed: every run of anybody's keeps the same images aside


def digits(*, valid: Validation, split_seed: Seed, size: Count = 8) -> Splits:
    """The digits, a fifth of each class kept aside as the test set; enlarged to `size` x `size` pixels, if it is not 8.

    Source: E. Alpaydin & C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository,
    doi:10.24432/C50P49 (CC BY 4.0), as bundled with scikit-learn.
    Raises: DataError if the file is missing or is not the one that was shipped.
    """
    _check()
    tensors = serialization.load_tensors(FILE)
    everything = ArrayDataset(_enlarged(tensors["images"], size), tensors["targets"].long())
    rest, kept_aside = splits.stratified_split(everything.targets, TEST_FRACTION, TEST_SEED)
    test = everything.subset(kept_aside)
    train, held_out = splits.hold_out(
        everything.subset(rest), test, valid=valid, split_seed=split_seed
    )
    return Splits(
        name="digits",
        train=train,
        valid=held_out,
        test=test,
        batcher=ImageBatcher(mean=0.3053, std=0.3760, scale=16.0),  # of all pixels / 16
        facts={"input_shape": (1, size, size), "num_classes": 10},
        fingerprint=SHA256,
        validates_on_test=valid == "test",
    )


def _enlarged(
    images: Shaped[Tensor, "size 1 8 8"], size: int
) -> Shaped[Tensor, "size 1 height width"]:
    """Bilinearly, rounded to the sixteenths that pixels come in."""
    if size == SIZE:
        return images
    return (
        functional.interpolate(images.float(), size=(size, size), mode="bilinear")
        .round()
        .to(images.dtype)
    )


def _check() -> None:
    if not FILE.is_file():
        raise errors.DataError(
            f"{FILE}: the digits shipped with andiron are not there; install the package again"
        )
    found = hashlib.sha256(FILE.read_bytes()).hexdigest()
    if found != SHA256:
        raise errors.DataError(
            f"{FILE}: SHA-256 is {found}, not {SHA256}: the file is damaged; restore it from the repository "
            "or install the package again"
        )

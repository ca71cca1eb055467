"""The diabetes that comes with the package: 442 patients, ten measurements each, and how ill they were a year later."""

import hashlib
from importlib import resources
from pathlib import Path

from andiron import errors, serialization
from andiron.data.on_disk import table_splits
from andiron.data.splits import Splits
from andiron.ranges import Seed, Validation

FILE = Path(str(resources.files("andiron.data.sources"))) / "diabetes.safetensors"
SHA256 = "4f858b94ecdc4c204d8a03b5fbc91236fb6331cd25da11d9631d8a0264a12a84"  # of FILE; scripts/make_diabetes.py prints it
COLUMNS = (
    "age",
    "sex",
    "bmi",
    "bp",
    "s1",
    "s2",
    "s3",
    "s4",
    "s5",
    "s6",
)  # s1 to s6: six blood serum measurements
TEST_FRACTION = 0.2


def diabetes(*, valid: Validation, split_seed: Seed) -> Splits:
    """The patients, a fifth of them kept aside as the test set; measurements standardised, the target in its own unit.

    Source: B. Efron, T. Hastie, I. Johnstone & R. Tibshirani 2004, Least Angle Regression, Annals of Statistics 32(2),
    doi:10.1214/009053604000000067, as bundled with scikit-learn (BSD-3-Clause).
    Raises: DataError if the file is missing or is not the one that was shipped.
    """
    _check()
    tensors = serialization.load_tensors(FILE)
    return table_splits.regression(
        name="diabetes",
        inputs=tensors["inputs"],
        columns=COLUMNS,
        targets=tensors["targets"],
        target_columns=("progression",),
        source=str(FILE),
        fingerprint=SHA256,
        valid=valid,
        test=TEST_FRACTION,
        split_seed=split_seed,
    )


def _check() -> None:
    if not FILE.is_file():
        raise errors.DataError(
            f"{FILE}: the diabetes shipped with andiron is not there; install the package again"
        )
    found = hashlib.sha256(FILE.read_bytes()).hexdigest()
    if found != SHA256:
        raise errors.DataError(
            f"{FILE}: SHA-256 is {found}, not {SHA256}: the file is damaged; restore it from the repository "
            "or install the package again"
        )

"""The shipped diabetes data: 442 patients, ten measurements each, the progression a year later."""

import torch

from andiron.data.on_disk import table_splits
from andiron.data.on_disk.columns import Columns
from andiron.data.sources import shipped
from andiron.data.splitting.splits import Splits
from andiron.ranges import Seed, Validation
from andiron.recording import keep_arguments

FILE = shipped.FOLDER / "diabetes.safetensors"
# of FILE; scripts/make_diabetes.py prints it
SHA256 = "4f858b94ecdc4c204d8a03b5fbc91236fb6331cd25da11d9631d8a0264a12a84"
COLUMNS = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")  # s: blood serum
TARGETS = ("progression",)
TEST_FRACTION = 0.2


@keep_arguments
def diabetes(*, valid: Validation, split_seed: Seed) -> Splits:
    """The patients, a fifth held out as the test set; targets in their own unit.

    The measurements are standardised.
    Source: B. Efron, T. Hastie, I. Johnstone & R. Tibshirani 2004, Least Angle Regression, Annals
    of Statistics 32(2), doi:10.1214/009053604000000067, as bundled with scikit-learn
    (BSD-3-Clause).
    Raises: DataError if the file is missing or is not the shipped one.
    """
    import polars  # takes 0.2 s

    tensors = shipped.load(FILE, SHA256)
    values = torch.cat([tensors["inputs"].double(), tensors["targets"].double()], dim=1)
    frame = polars.from_numpy(values.numpy(), schema=[*COLUMNS, *TARGETS])
    return table_splits.of_columns(
        Columns(str(FILE), frame, dict.fromkeys(COLUMNS, "number")),
        TARGETS,
        kind="regression",
        name="diabetes",
        fingerprint=SHA256,
        valid=valid,
        test=TEST_FRACTION,
        split_seed=split_seed,
    )

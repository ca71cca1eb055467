"""Makes diabetes.safetensors from the data that scikit-learn bundles, and prints its SHA-256.

python scripts/make_diabetes.py [FILE]
"""

import argparse
import hashlib
from pathlib import Path

import safetensors.torch
import torch
from sklearn.datasets import load_diabetes

FILE = Path(__file__).parents[1] / "src" / "andiron" / "data" / "sources" / "diabetes.safetensors"
# one entry: safetensors writes several in no fixed order, which would change the checksum
ABOUT = (
    "442 patients: age, sex, bmi, bp, s1 to s6 as measured, and how far their diabetes had come "
    "a year later. Source: "
    "B. Efron, T. Hastie, I. Johnstone & R. Tibshirani 2004, Least Angle Regression, "
    "Annals of Statistics 32(2), 407-499, "
    "doi:10.1214/009053604000000067, as bundled with scikit-learn "
    "(sklearn.datasets.load_diabetes, scaled=False; BSD-3-Clause)."
)


def main(path: Path) -> None:
    bundle = load_diabetes(scaled=False)
    tensors = {
        "inputs": torch.from_numpy(bundle.data).to(torch.float32).contiguous(),
        "targets": torch.from_numpy(bundle.target).to(torch.float32).unsqueeze(1),
    }
    path.write_bytes(safetensors.torch.save(tensors, metadata={"about": ABOUT}))
    print(
        f"{path}: {path.stat().st_size} bytes, SHA-256 "
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help="(default: %(default)s)")
    main(parser.parse_args().file)

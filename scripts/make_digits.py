"""Makes digits.safetensors from the digits that scikit-learn bundles, and prints its SHA-256.

python scripts/make_digits.py [FILE]
"""

import argparse
import hashlib
from pathlib import Path

import safetensors.torch
import torch
from sklearn.datasets import load_digits

FILE = Path(__file__).parents[1] / "src" / "andiron" / "data" / "sources" / "digits.safetensors"
# one entry: safetensors writes several in no fixed order, which would change the checksum
ABOUT = (
    "1,797 handwritten digits, 8x8, pixels 0 to 16. "
    "Source: E. Alpaydin & C. Kaynak 1998, Optical Recognition of Handwritten Digits "
    "(test part), UCI Machine Learning Repository, doi:10.24432/C50P49, as bundled with "
    "scikit-learn (sklearn.datasets.load_digits). Licence: CC BY 4.0."
)


def main(path: Path) -> None:
    bundle = load_digits()
    tensors = {
        "images": torch.from_numpy(bundle.images).to(torch.uint8).unsqueeze(1).contiguous(),
        "targets": torch.from_numpy(bundle.target).to(torch.uint8),
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

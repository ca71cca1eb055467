"""What every test shares: array shapes checked as annotated, one thread, and where real data may lie."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("andiron", "beartype.beartype")  # before anything imports andiron

import torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)  # with more, a tiny step waits a thousand times its own length for a busy neighbour


@pytest.fixture
def mnist_root() -> Path:
    """The folder with the genuine MNIST; skips the test where there is none."""
    root = Path(os.environ.get("ANDIRON_DATA_DIR", "data")).absolute()
    if not (root / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs MNIST in {root}: set ANDIRON_DATA_DIR to a folder that has MNIST/raw")
    return root

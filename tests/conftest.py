"""What every test shares: array shapes checked as annotated, one thread, and where real data may lie."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("andiron", "beartype.beartype")  # before anything imports andiron

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
torch.set_num_threads(1)  # with more, a tiny step waits a thousand times its own length for a busy neighbour


@pytest.fixture
def mnist_root() -> Path:
    """The folder with the genuine MNIST; skips the test where there is none."""
    root = Path(os.environ.get("ANDIRON_DATA_DIR", "data")).absolute()
    if not (root / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs MNIST in {root}: set ANDIRON_DATA_DIR to a folder that has MNIST/raw")
    return root


class HostReads(TorchDispatchMode):
    """Counts how often a tensor's value is read, which is when a GPU would have to be waited for."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.fixture
def host_reads() -> type[HostReads]:
    """`with host_reads() as reads:` counts the reads in the block as `reads.number`."""
    return HostReads

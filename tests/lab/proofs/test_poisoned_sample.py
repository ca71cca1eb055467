"""One poisoned sample among MNIST's is found by name from the spike, in one command."""

import os
from pathlib import Path

import pytest

from proofs import poisoned_sample

MNIST = Path(os.environ.get("ANDIRON_DATA_DIR", "data")) / "MNIST" / "raw"


@pytest.mark.skipif(not MNIST.is_dir(), reason="ANDIRON_DATA_DIR has no MNIST")
@pytest.mark.parametrize("kind", poisoned_sample.KINDS[:2])
def test_a_poisoned_sample_is_the_first_of_a_spike(kind, monkeypatch):
    monkeypatch.setenv("ANDIRON_DATA_DIR", str(MNIST.parents[1]))
    name = poisoned_sample.poisoned_name(0)
    names, own = poisoned_sample.first_samples(kind, 0)
    assert name in names if kind == "label" else names[0] == name
    assert own == name

"""Some updates of each kind of run of proofs/asked_again.py, made again: the bits of the run."""

import sys

import pytest

from proofs import asked_again


@pytest.mark.parametrize("kind", asked_again.KINDS)
def test_updates_of_every_kind_of_run_are_made_again(tmp_path, monkeypatch, request, kind):
    if "processes" in kind:
        request.getfixturevalue("preloaded_processes")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of workers and other processes
    updates, stretches, tensors, values, differences = asked_again.asked_again(
        kind, tmp_path, number=4, length=13
    )
    sys.modules.pop("asked_own", None)
    assert (updates, differences) == (4, 0) and stretches > 1 and tensors and values

"""Surroundings that break, of every kind; `python -m proofs.surroundings` runs them all."""

import pytest

from proofs import surroundings

CHOSEN = (
    "both outputs to a full device", "SIGTERM until the end", "files smaller than a checkpoint",
    "no file may have a byte", "20 open files, with workers",
)  # fmt: skip


@pytest.mark.slow
def test_runs_end_as_they_should_in_their_surroundings(tmp_path, capsys):
    chosen = [value for value in surroundings.SURROUNDINGS if value.name in CHOSEN]
    assert len(chosen) == len(CHOSEN)
    assert surroundings.show(chosen, tmp_path, jobs=2) == 0, capsys.readouterr()

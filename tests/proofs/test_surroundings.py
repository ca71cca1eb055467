"""A third of the surroundings that break; `python -m proofs.surroundings` runs them all."""

import pytest

from proofs import surroundings


@pytest.mark.slow
def test_runs_end_as_they_should_in_their_surroundings(tmp_path, capsys):
    chosen = surroundings.SURROUNDINGS[::3]
    assert surroundings.show(chosen, tmp_path, jobs=2) == 0, capsys.readouterr()

"""Every surrounding that breaks."""

import pytest

from proofs import surroundings


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_runs_end_as_they_should_in_every_surrounding(tmp_path, capsys):
    assert surroundings.show(surroundings.SURROUNDINGS, tmp_path, jobs=2) == 0, capsys.readouterr()

"""Runs in surroundings that break: the same bits, or a clear error; all of them in tests/proofs."""

import pytest

from proofs import surroundings

CHOSEN = (
    "both outputs to a full device",
    "SIGTERM until the end",
    "files smaller than a checkpoint",
    "20 open files, with workers",
)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return surroundings.straight(tmp_path_factory.mktemp("straight") / "folder")


@pytest.mark.parametrize("name", CHOSEN)
def test_a_run_ends_as_it_should_in_its_surroundings(tmp_path, straight, name):
    (chosen,) = [each for each in surroundings.SURROUNDINGS if each.name == name]
    assert surroundings.faults(chosen, tmp_path / "folder", straight) == []

"""Finished runs that several tests read; nothing may be written into them."""

import pytest
from in_process import called

from andiron.commands import train


@pytest.fixture(scope="session")
def finished_digits(tmp_path_factory):
    """The folder of a finished run on the digits, with checkpoints and an average `ema`."""
    folder = tmp_path_factory.mktemp("finished") / "digits"
    ended = called(
        train.main, "num_epochs=2", "averages=ema", "render=plain", f"hydra.run.dir={folder}",
        cwd=folder.parent,
    )  # fmt: skip
    assert (ended.code, ended.errors) == (0, "")
    return folder

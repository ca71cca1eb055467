"""The status of a run is restored, and keeps the times of earlier sessions."""

import os
from unittest import mock

import pytest

from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_record, status


@pytest.mark.parametrize(("name", "content", "has_trained"), [
    ("summary.json", b"{}", True),
    ("checkpoints/step-3/state.json", b"{}", True),
    ("tensorboard/train/events.out.tfevents.1.x", b"", True),
    ("checkpoints/step-0/state.json", b"{}", False),
])  # fmt: skip
def test_an_update_that_files_show_counts_whatever_the_status_says(
    tmp_path, name, content, has_trained
):
    folder = RunFolder(tmp_path)
    status.Report(lambda: None, is_untrained=True).write(folder)
    assert status.is_untrained(folder)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    assert status.is_untrained(folder) is not has_trained


def test_a_status_that_cannot_be_written_does_not_stay_untrue(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    status.Report(lambda: None, is_untrained=True).write(folder)
    monkeypatch.setattr(files, "write", mock.Mock(side_effect=OSError(28, "No space left")))
    status.Report(lambda: None).write(folder)
    assert not folder.status.exists() and not status.is_untrained(folder)


def test_a_status_that_is_too_large_is_not_read_to_be_put_back(tmp_path):
    (tmp_path / "status.json").touch()
    os.truncate(tmp_path / "status.json", 100 * 2**30)  # sparse
    run_record.begin(RunFolder(tmp_path))
    with pytest.raises(KeyboardInterrupt), claim.resumed(RunFolder(tmp_path)):
        raise KeyboardInterrupt
    assert (tmp_path / "status.json").stat().st_size < 1000

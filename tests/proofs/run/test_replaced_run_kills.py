"""A run that is replaced by a new one, whenever the process is killed: one whole run is left."""

import itertools
import os

import pytest
from runs_made import content, make_run

from andiron.disk import files
from andiron.run_folder import RunFolder
from andiron.shell.run import claim, run_files, run_record, status

CHANGES = ("link", "mkdir", "open", "rename", "replace", "rmdir", "unlink", "write")


class Killed(BaseException):
    """Stands for SIGKILL: nothing is changed after it, even if it is caught."""


def killed_after(changes, act):
    """Whether `act` was killed, after this number of disk changes."""
    made = itertools.count()

    def limited(change):
        def call(*arguments, **options):
            if next(made) >= changes:
                raise Killed
            return change(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, limited(getattr(os, name)))
        try:
            act()
        except Killed:
            return True
    return False


def replace(folder):
    """A new run in the place of the one in the folder, as `overwrite=true` starts it."""
    with claim.claimed(folder, overwrite=True) as begins:
        run_record.write(folder, {folder.config: b"new", folder.provenance: b"new"})
        (folder.checkpoints / "step-0").mkdir(parents=True)
        begins()
        folder.metrics.write_text("new")


def states(path, act):
    """The folder of a run after every number of changes at which `act` can be killed."""
    for changes in itertools.count():
        folder = RunFolder(path / str(changes))
        identity = make_run(folder.path)
        (folder.tensorboard / "notes.txt").write_text("mine")
        before = content(folder.path)
        is_killed = killed_after(changes, lambda folder=folder: act(folder))
        yield folder, identity, before
        if not is_killed:
            return


def is_whole(folder, identity, before):
    """Whether the old run is unchanged; otherwise only the new one is there."""
    assert not run_files.is_aside(folder)
    assert (folder.tensorboard / "notes.txt").read_text() == "mine"
    if run_record.holds_run(folder, identity):
        half_written = files.partials(folder.path)  # removed when the run is resumed or replaced
        now = content(folder.path).items()
        assert {path: text for path, text in now if path not in half_written} == before
        return True
    assert run_record.holds_run(folder) and run_record.changed(folder) == []
    assert not folder.weights("model-a").exists() and not (folder.checkpoints / "step-1").exists()
    return False


def test_a_kill_at_any_moment_of_replacing_leaves_one_whole_run(tmp_path):
    stood = []
    for folder, identity, before in states(tmp_path, replace):
        claim.settle(folder)
        stood.append(is_whole(folder, identity, before))
    replace(folder)
    assert not is_whole(folder, identity, before)
    assert len(stood) > 50 and stood == sorted(stood, reverse=True)  # the old ones, then the new
    assert True in stood and False in stood


def test_a_kill_while_an_earlier_kill_is_settled_loses_nothing(tmp_path):
    def killed_then_settled(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_files, "undo", lambda *_: None)
            with pytest.raises(RuntimeError), claim.claimed(folder, overwrite=True):
                run_record.write(folder, {folder.config: b"new"})
                raise RuntimeError
        claim.settle(folder)

    for folder, identity, before in states(tmp_path, killed_then_settled):
        claim.settle(folder)
        assert is_whole(folder, identity, before)


def test_the_same_command_restarts_a_run_killed_anywhere_in_its_start(tmp_path):
    def start(folder, *, overwrite=False):
        with claim.claimed(folder, overwrite=overwrite) as begins:
            run_record.write(folder, {folder.config: b"new", folder.hydra / "config.yaml": b"new"})
            begins()

    for changes in itertools.count():
        folder = RunFolder(tmp_path / str(changes))
        is_killed = killed_after(changes, lambda folder=folder: start(folder))
        start(folder, overwrite=True)  # what restart=requeued and overwrite=true do
        assert run_record.changed(folder) == [] and not run_files.is_aside(folder)
        if not is_killed:
            break
    assert changes > 10


def test_a_run_killed_before_its_first_update_is_started_again_whenever_that_is_killed(tmp_path):
    """The second start removes the run's files; the third needs no permission."""

    def start(folder, *, overwrite=False):
        with claim.claimed(folder, overwrite=overwrite) as begins:
            run_record.write(folder, {folder.config: b"new", folder.hydra / "config.yaml": b"new"})
            begun.append(folder)
            begins()

    begun, first = [], 0
    while not begun:
        first += 1
        killed_after(first, lambda: start(RunFolder(tmp_path / f"begun-{first}")))  # noqa: B023
    for second in itertools.count():
        folder = RunFolder(tmp_path / str(second))
        killed_after(first - 1, lambda folder=folder: start(folder))
        assert status.is_untrained(folder) and folder.config.exists()
        begun.clear()
        killed_after(second, lambda folder=folder: start(folder))
        if begun:
            break
        start(folder)
    assert second > 20

"""A resumed run that fails before its first update leaves at most event files without a value."""

import hashlib
import sys

import pytest
from in_process import called

from andiron.shell.training import train

RUN = ("num_epochs=1", "data=partial", "data.fraction=0.1", "batch_size=32", "render=plain",
       "writers=[json_lines,tensorboard,csv]", "hydra.run.dir=run")  # fmt: skip
PARTS = """
from andiron.errors import DataError

def raises(raw, draws):
    raise DataError("in the first batch")
"""
RAISING = "+augmentation.own={_target_: resume_parts.raises, _partial_: true}"
FAULTS = {
    "a metric that is not measured": ("num_epochs=2", "checkpoint.metric=no_such"),
    "an error in the first batch": ("num_epochs=2", "resume_allow=[augmentation]", RAISING),
    "a sample without a picture": ("num_epochs=2", "metrics=classification_pictures", "data=csv"),
    "a device that is not there": ("num_epochs=2", "device=cuda:77"),
    "a checkpoint of another learner": ("num_epochs=2", "averages=ema"),
}  # fmt: skip


def contents(folder):
    """The SHA-256 of each file of a run's folder, besides its log."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "experiment.log"
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder with a run that is done, and with parts that raise."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "resume_parts.py").write_text(PARTS)
    assert called(train.main, *RUN, cwd=folder).code == 0
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_a_resume_that_fails_before_its_first_update_changes_no_file(trained, fault, monkeypatch):
    monkeypatch.syspath_prepend(trained)
    before = contents(trained / "run")

    ended = called(train.main, "resume=run", "render=plain", *FAULTS[fault], cwd=trained)
    sys.modules.pop("resume_parts", None)

    assert ended.code != 0, ended.output
    after = contents(trained / "run")
    added = after.keys() - before.keys()  # event files without a value
    assert after.keys() >= before.keys() and all("events.out" in name for name in added)
    after["manifest.json"] = before["manifest.json"]  # it lists them
    # values after the checkpoint are cut before the first batch
    assert before.items() <= after.items() or "batch" in fault

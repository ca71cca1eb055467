"""A run that ends before its first update leaves nothing that stands in the way of the next."""

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest
from in_process import called

from andiron.run_folder import RunFolder
from andiron.shell.run import named_folder, status
from andiron.shell.training import train
from refusals import message_of

SMALL = ("num_epochs=1", "data=partial", "data.fraction=0.1", "render=plain")
OWN = """
import shutil
import signal

from andiron.errors import DataError
from andiron.models import MLP

class Net(MLP):
    def __init__(self, input_shape, num_outputs, width: int = 3):
        if width < 2:
            raise ZeroDivisionError("too narrow")
        super().__init__(input_shape, num_outputs, hidden=[width])

class Copies(MLP):
    def __init__(self, input_shape, num_outputs):
        shutil.copytree("run", "copy")
        raise DataError("killed here")

class Interrupted(MLP):
    def __init__(self, input_shape, num_outputs):
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:  # as torch does within some of its code
            raise RuntimeError("a storage of another size")
"""
TABLE = "a,b\n1,2\n2,3\n3,4\n4,5\n5,6\n6,7\n7,8\n8,9\n9,1\n3,2\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)  # of another test's folder
    return tmp_path


def trained(*options):
    return called(train.main, *SMALL, *options)


def folders():
    return sorted(path.parent for path in Path.cwd().rglob("experiment.log"))


@pytest.mark.parametrize("folder", [(), ("hydra.run.dir=run",)])
def test_a_mistake_in_the_data_leaves_the_command_repeatable(here, folder):
    assert trained("hydra.run.dir=outputs/2026-01-01/good").code == 0
    (here / "table.csv").write_text(TABLE.replace("8,9", "8;nine"))
    command = (
        "num_epochs=1", "data=csv_regression", "data.path=table.csv", "data.target=b", *folder,
    )  # fmt: skip
    ended = called(train.main, *command)
    assert ended.code == 1 and "resume" not in ended.errors
    assert folders() == [here / "outputs/2026-01-01/good"]
    assert named_folder.newest() == here / "outputs/2026-01-01/good"

    (here / "table.csv").write_text(TABLE)
    assert called(train.main, *command).code == 0
    assert len(folders()) == 2


def test_a_class_of_ones_own_that_raises_leaves_the_command_repeatable(here, monkeypatch):
    (here / "my_nets.py").write_text(OWN)
    monkeypatch.syspath_prepend(here)
    command = "~model", "+model={_target_: my_nets.Net, width: 1}", "hydra.run.dir=run"
    assert "too narrow" in message_of(ZeroDivisionError, trained, *command)
    assert folders() == []
    assert trained(*command, "model.width=4").code == 0
    assert folders() == [here / "run"]


def test_an_error_that_answers_a_signal_at_the_start_is_the_interruption(here, monkeypatch):
    (here / "my_nets.py").write_text(OWN)
    monkeypatch.syspath_prepend(here)
    ended = trained("~model", "+model={_target_: my_nets.Interrupted}", "hydra.run.dir=run")
    assert ended.code == 128 + signal.SIGTERM and folders() == []
    assert "nothing was trained, and nothing is left" in ended.errors


@pytest.fixture
def killed(here, monkeypatch):
    """The folder `run` as a process leaves it that is killed in a network's constructor."""
    (here / "my_nets.py").write_text(OWN)
    monkeypatch.syspath_prepend(here)
    assert trained("~model", "+model={_target_: my_nets.Copies}", "hydra.run.dir=run").code == 1
    (here / "copy").rename(here / "run")
    folder = RunFolder(here / "run")
    assert status.read(folder)["status"] == "running" and folder.config.exists()
    return folder


@pytest.mark.parametrize("option", ["seed=1", "restart=requeued", "overwrite=true"])
def test_a_folder_left_by_a_kill_is_replaced_at_once(killed, option):
    assert trained("hydra.run.dir=run", option).code == 0
    assert status.read(killed)["status"] == "done"
    assert "my_nets" not in killed.config.read_text()


def test_a_folder_left_by_a_kill_is_not_resumed(killed):
    ended = trained("resume=run", "trust=[my_nets]")
    assert ended.code == 1
    assert f"nothing to resume; hydra.run.dir={killed.path} starts it again" in ended.errors


def test_latest_passes_over_a_folder_left_by_a_kill(killed, here):
    assert trained("hydra.run.dir=outputs/2026-01-01/good").code == 0
    shutil.copytree(killed.path, here / "outputs" / "2026-01-02" / "killed")
    assert named_folder.newest() == here / "outputs/2026-01-01/good"


def test_the_ledger_of_a_sweep_has_a_job_that_never_trained(here):
    command = "-m", "batch_size=8,16", "data=csv_regression", "data.path=table.csv", "data.target=b"
    sweep = *command, "num_epochs=1", "hydra.sweep.dir=sweep"
    (here / "table.csv").write_text(TABLE.replace("8,9", "8;nine"))
    assert called(train.main, *sweep).code == 1
    lines = (here / "sweep" / "sweep.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    ended = [event for event in events if event["event"] == "ended"]
    assert [event["status"] for event in ended] == ["failed", "failed"]
    assert all("table.csv" in event["reason"] for event in ended) and folders() == []

    (here / "table.csv").write_text(TABLE)
    assert called(train.main, *sweep).code == 0
    assert folders() == [here / "sweep" / "0", here / "sweep" / "1"]

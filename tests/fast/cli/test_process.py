"""A command refuses an unusable process before it does anything."""

import io
import os
import shutil
import signal
import sys

import pytest
from in_process import called

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.shell.cli import process, signals
from andiron.shell.cli.signals import Signals, installed
from andiron.shell.training import train, train_run


@pytest.mark.parametrize(("variables", "named"), [
    ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}, "WORLD_SIZE=2: "),
    ({"WORLD_SIZE": "2", "RANK": "1"}, "WORLD_SIZE=2 RANK=1: "),
    ({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_SIZE=4: "),
])  # fmt: skip
def test_one_of_several_processes_is_refused_by_name(variables, named):
    (problem,) = process.problems([], variables)
    assert problem.startswith(named) and "torchrun" in problem


def test_a_single_process_is_not_a_group():
    assert process.problems([], {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": ""}) == []


def test_arguments_that_are_no_text_are_refused():
    (problem,) = process.problems(["lr=1", "data=\udcff"], {})
    assert problem == r"data=\udcff: is not UTF-8 text; give or use one that is, in a UTF-8 locale"


def test_a_removed_directory_is_refused(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    here = os.getcwd()
    os.chdir(gone)
    try:
        gone.rmdir()
        (problem,) = process.problems([], {})
    finally:
        os.chdir(here)
    assert problem.startswith("the current directory cannot be used (No such file or directory)")


def test_torchrun_trains_nothing(here, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    ended = called(train.main, "num_epochs=1", cwd=here)
    assert ended.code == 2 and "WORLD_SIZE=2" in ended.errors
    assert list(here.iterdir()) == []


def test_signals_are_ignored_on_the_way_out_of_a_process():
    handlers = {number: signal.getsignal(number) for number in signals.STOPPING}
    try:
        with installed(Signals(Interrupter(), until_exit=True)):
            pass
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        assert callable(signal.getsignal(signal.SIGINT))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_signal_waits_for_the_configuration_but_not_for_ever():
    interrupter = Interrupter()
    interrupter.start()
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(errors.Interrupted, match="SIGTERM"), installed(Signals(interrupter)):
            os.kill(os.getpid(), signal.SIGTERM)
            assert 0 < signal.alarm(0) <= signals.SECONDS_TO_START
            os.kill(os.getpid(), signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_before_the_configuration_gets_its_exit_code():
    interrupter = Interrupter()
    interrupter.start()
    try:
        with pytest.raises(errors.Interrupted) as caught, installed(Signals(interrupter)):
            os.kill(os.getpid(), signal.SIGUSR1)
            signal.alarm(0)
            interrupter.begin(75)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert caught.value.exit_code == 75 and str(caught.value) == "SIGUSR1"


def test_an_interruption_waits_for_work_that_must_not_be_left():
    interrupter, done = Interrupter(), []
    with pytest.raises(errors.Interrupted), interrupter.held_back():
        interrupter.stop("SIGTERM")
        done.append("the rest of it")
    assert done == ["the rest of it"] and not interrupter.is_heard


def test_a_run_stopped_before_its_first_update_leaves_nothing(here, monkeypatch):
    def recorded(*_):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(train_run.run_record, "write", recorded)
    arguments = ("num_epochs=1", "hydra.run.dir=run", "restart=requeued")
    ended = called(train.main, *arguments, cwd=here)
    assert ended.code == 75
    assert ended.errors.splitlines()[-1] == (
        f"interrupted; nothing was trained, and nothing is left in {here / 'run'}: start it again"
    )
    assert not (here / "run").exists()


def test_a_run_killed_before_its_first_checkpoint_is_not_resumed(here):
    arguments = ("num_epochs=1", "hydra.run.dir=run", "data=partial", "render=plain")
    assert called(train.main, *arguments, cwd=here).code == 0
    shutil.rmtree(here / "run" / "checkpoints")
    (here / "run" / "status.json").unlink()
    ended = called(train.main, "resume=run", cwd=here)
    assert ended.errors.startswith(
        f"error: {here / 'run'}: holds a run that has trained, and there is no checkpoint of it in "
    )
    assert f"hydra.run.dir={here / 'run'} overwrite=true starts it again" in ended.errors


@pytest.mark.parametrize(("arguments", "exit_codes"), [
    ([], (1, 0)), (["-m", "lr=1,2"], (1, 0)), (["--help"], (1, 1)), (["--vers"], (1, 1)),
])  # fmt: skip
def test_only_training_outlasts_its_output(monkeypatch, arguments, exit_codes):
    for trains, code in zip((False, True), exit_codes, strict=True):
        monkeypatch.setattr(sys, "argv", ["script.py", *arguments])
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        sys.stdout.close()
        assert process.command(lambda: print("lost") or 0, trains=trains)() == code


def test_an_interrupt_before_signals_are_handled_ends_with_a_line(monkeypatch):
    def interrupted(environment):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "installed", interrupted)

    ended = called(train.main)

    assert (ended.code, ended.output, ended.errors) == (130, "", "interrupted\n")

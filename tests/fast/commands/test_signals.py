"""Signals of a job that another launcher has started in a process of its own."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import andiron
from andiron import errors
from andiron.commands.signals import Signals, saved_before_launcher
from andiron.interrupter import Interrupter


@pytest.fixture
def handled():
    """The numbers of the signals that a launcher's handler of SIGUSR2 has heard."""
    numbers = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGUSR2, before)


def test_the_signals_of_a_copy_are_those_of_its_own_process():
    signals = Signals(Interrupter(), until_exit=True)
    signals.interrupter.stop("SIGTERM")

    copy = pickle.loads(pickle.dumps(signals))
    assert copy.interrupter.asked is None and not copy.until_exit


def test_a_launcher_hears_its_signal_once_the_job_has_stopped(handled):
    signals = Signals(Interrupter())
    with pytest.raises(errors.Interrupted, match="SIGUSR2"), saved_before_launcher(signals):
        signal.raise_signal(signal.SIGUSR2)
    assert handled == []

    signal.raise_signal(signal.SIGUSR2)
    assert handled == [signal.SIGUSR2]


def test_signals_that_no_launcher_handles_stay_as_they_are():
    before = signal.getsignal(signal.SIGUSR1)
    with saved_before_launcher(Signals(Interrupter())):
        assert signal.getsignal(signal.SIGUSR1) == before


STOPPED_AT_START = """
import signal

from andiron.commands.signals import Signals, heard
from andiron.interrupter import Interrupter

interrupter = Interrupter()
interrupter.start()
with heard(Signals(interrupter, until_exit=True)):
    signal.raise_signal(signal.SIGTERM)
print(interrupter.asked, signal.alarm(0))
"""


def test_the_time_limit_of_a_start_ends_with_the_command():
    source = Path(andiron.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", STOPPED_AT_START]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "SIGTERM 0\n"

"""Signals of a job that another launcher has started in a process of its own."""

import pickle
import signal

import pytest

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.shell.cli.signals import Signals, saved_before_launcher


@pytest.fixture
def handled():
    """The numbers of the signals that a launcher's handler of SIGUSR2 received."""
    numbers = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGUSR2, before)


def test_a_copy_of_signals_belongs_to_its_own_process():
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

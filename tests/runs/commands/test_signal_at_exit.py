"""The effect of signals after a command has handled them."""

import os
import subprocess
import sys
from pathlib import Path

import andiron

STOPPED_AT_START = """
import signal

from andiron.shell.cli.signals import Signals, installed
from andiron.interrupter import Interrupter

interrupter = Interrupter()
interrupter.start()
with installed(Signals(interrupter, until_exit=True)):
    signal.raise_signal(signal.SIGTERM)
print(interrupter.asked, signal.alarm(0))
"""


def test_the_time_limit_of_a_start_ends_with_the_command():
    source = Path(andiron.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", STOPPED_AT_START]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "SIGTERM 0\n"

"""A real terminal without a window: tmux, driven and read by a test."""

import shutil
import subprocess
import time
import uuid

import pytest

SECONDS_AT_MOST = 120
NEEDED = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux: a real terminal")


class Tmux:
    """A server with one window of its own; a shell runs in it."""

    def __init__(self, cwd, columns=120, rows=32):
        self.name = f"andiron-{uuid.uuid4().hex[:8]}"
        shell = ("env", "PS1=$ ", "HISTFILE=", "OMP_NUM_THREADS=1", "bash", "--norc", "--noprofile")
        size = ("-x", str(columns), "-y", str(rows))
        self("-f", "/dev/null", "new-session", "-d", *size, "-c", str(cwd), *shell)

    def __call__(self, *arguments):
        command = ["tmux", "-L", self.name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def type(self, line):
        """Types a line and Enter."""
        self("send-keys", "-l", line)
        self("send-keys", "Enter")

    def press(self, *keys):
        """Presses keys, by tmux's names."""
        self("send-keys", *keys)

    @property
    def screen(self):
        """The screen now."""
        return self("capture-pane", "-p")

    def until(self, condition):
        """The screen as soon as it holds the words, or fits the condition."""

        def has_words(screen):
            return condition in screen.replace("\n", "")  # a line may wrap

        fits = condition if callable(condition) else has_words
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not fits(screen := self.screen):
            if time.monotonic() > deadline:
                pytest.fail(f"it did not come to {condition}:\n{screen}")
            time.sleep(0.05)
        return screen

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self("kill-server")

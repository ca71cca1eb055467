"""TensorBoard's own server in a process, for the runs of a folder."""

import re
import subprocess
import sys
from contextlib import contextmanager

from waiting import until


@contextmanager
def serving(folder, said, *more):
    """A server of the runs in the folder, by its address; it is stopped in the end."""
    options = [
        "--logdir", folder.name, "--port", "0", "--host", "127.0.0.1", "--reload_interval", "1",
        *more,
    ]  # fmt: skip
    with said.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", *options],
            cwd=folder.parent,  # the page shows the folder as it was given
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield until(lambda: found_address(said, server))
    finally:
        server.terminate()
        server.wait(timeout=20)


def found_address(said, server):
    assert server.poll() is None, said.read_text()
    match = re.search(r"http://127\.0\.0\.1:\d+/", said.read_text())
    return match and match.group()

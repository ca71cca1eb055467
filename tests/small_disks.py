"""Disks so small that they are soon full, for real."""

import errno
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(folder, *, mebibytes):
    """`folder` as a file system of its own; skips the test where none can be mounted."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("mounts a small tmpfs, which takes Linux and root")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk, *, leave=0):
    """Fills the disk but for some bytes; the file to remove for space."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
        if leave:
            file.truncate(file.tell() - leave)
    return filler

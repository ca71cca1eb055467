"""A command on a terminal of its own, which may vanish while the command runs.

    python -m proofs.terminal [--vanishes-after LINES] [--size ROWS COLUMNS] COMMAND ...

Prints what the command shows, and exits with its exit code.
"""

import argparse
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def ran(command: list[str], lines: int | None = None, size: tuple[int, int] = (40, 150)) -> int:
    """The exit code of a command whose controlling terminal closes after `lines`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    _read(ours, lines)
    os.close(ours)
    return process.wait()


def _read(terminal: int, lines: int | None) -> None:
    """Shows what is written to the terminal until its end, or until `lines`."""
    seen = 0
    while lines is None or seen < lines:
        try:
            shown = os.read(terminal, 65536)
        except OSError:  # the command has ended
            return
        os.write(1, shown)
        seen += shown.count(b"\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vanishes-after", type=int, metavar="LINES")
    parser.add_argument("--size", type=int, nargs=2, default=(40, 150))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    code = ran(options.command, options.vanishes_after, tuple(options.size))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

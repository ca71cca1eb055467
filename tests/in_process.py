"""Commands and scripts, run in this process, which is afterwards as it was before."""

import contextlib
import io
import logging
import os
import re
import runpy
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from andiron.shell.cli.signals import STOPPING

BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code and what it printed."""

    code: int
    output: str
    errors: str

    @property
    def problems(self) -> list[str]:
        """The lines about the configuration, the heading above them checked and removed."""
        heading, *lines = self.errors.splitlines()
        noun = "problem" if len(lines) == 1 else "problems"
        assert heading == f"error: {len(lines)} {noun} in the configuration; nothing was trained:"
        assert all(line.startswith("  ") for line in lines)
        return [line.removeprefix("  ") for line in lines]


def ran(script: Path, *arguments: str | Path, cwd: Path | None = None) -> Ended:
    """The file `script`, as `python script *arguments` runs it in the folder `cwd`."""

    def main() -> int:
        runpy.run_path(str(script), run_name="__main__")
        return 0

    with mock.patch.object(sys, "path", list(sys.path)):
        return called(main, *arguments, cwd=cwd)


def called(main: Callable[[], int], *arguments: str | Path, cwd: Path | None = None) -> Ended:
    """`main`, as `python <script> *arguments` calls it in the folder `cwd`."""
    log = logging.getLogger("andiron")
    handlers, level = list(log.handlers), log.level
    of_signals = {number: signal.getsignal(number) for number in STOPPING}
    output, errors = io.StringIO(), io.StringIO()
    script = f"{main.__module__.rpartition('.')[2]}.py"
    try:
        with (
            mock.patch.object(sys, "argv", [script, *map(str, arguments)]),
            mock.patch.object(sys, "orig_argv", ["python", script, *map(str, arguments)]),
            mock.patch.dict(os.environ),
            contextlib.chdir(cwd or Path.cwd()),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            code = main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        log.handlers[:] = handlers
        log.setLevel(level)
        for number, handler in of_signals.items():  # ignored on the way out of a process
            signal.signal(number, handler)
    return Ended(code, output.getvalue(), errors.getvalue())


def page_ran(text: str, root: Path, names: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Each command and block of Python of a page, after it was run, with what it printed.

    Commands run in the checkout at `root`; `names` are defined by the Python so far.
    """
    for language, block in BLOCK.findall(text):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block, "<page>", "exec"), names)
            yield block, output.getvalue()
            continue
        for line in block.replace("\\\n", " ").splitlines():
            _, script, *arguments = shlex.split(line)
            ended = ran(root / script, *arguments)
            is_different = arguments[:1] == ["bisect"]  # pages compare what is not equal
            assert ended.code == is_different, (line, ended.errors)
            yield line, ended.output

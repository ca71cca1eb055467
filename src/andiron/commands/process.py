"""What every command needs of the process that it runs in, checked before anything else."""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import ParamSpec

from andiron import errors
from andiron.commands import streams
from andiron.commands.signals import exit_code, outcome
from andiron.config import flags

EXIT_USAGE = 2
# of torchrun and of mpirun: how many processes were started, and which of them this is
NUMBERS_OF_PROCESSES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
RANKS = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK")
Arguments = ParamSpec("Arguments")


def command(
    main: Callable[Arguments, int], *, trains: bool = False
) -> Callable[Arguments, int]:
    """A main function whose surroundings are checked, and which ends if its result is lost.

    Ctrl-C ends it with a line, also while it imports.
    """

    @functools.wraps(main)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        has_result = not trains or flags.prints_only(sys.argv[1:])
        try:
            with streams.lasting(has_result=has_result):
                return _ended(lambda: main(*args, **kwargs))
        except streams.ResultLost as lost:
            return lost.exit_code

    return checked


# training continues where standard output cannot be written
training_command = functools.partial(command, trains=True)


def _ended(main: Callable[[], int]) -> int:
    found = problems(sys.argv[1:], os.environ)
    if found:
        print(f"error: {errors.ConfigError(found)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        return main()
    except KeyboardInterrupt as error:
        print("; ".join(["interrupted", *outcome(error)]), file=sys.stderr)
        return exit_code(error)


def problems(arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    """Why no command can run in this process: a line each."""
    found = [
        f"{_readable(argument)}: is not UTF-8 text; give it in UTF-8, in a UTF-8 locale"
        for argument in arguments
        if not _is_text(argument)
    ]
    try:
        here = os.getcwd()
    except OSError as error:
        found.append(
            f"the current directory cannot be used ({error.strerror}): it was removed, or may not "
            "be read; change to another"
        )
    else:
        if not _is_text(here):
            found.append(f"{_readable(here)}: the current directory has no UTF-8 name; rename it")
    os.umask(mask := os.umask(0o022))  # it can only be read by setting it
    if mask & 0o700:
        found.append(
            f"umask {mask:04o}: this process could not use the files and folders that it makes; "
            "run `umask 022` before it"
        )
    return [*found, *_several_processes(environment)]


def _several_processes(environment: Mapping[str, str]) -> list[str]:
    """Each process would train a run of its own, in silence."""
    several = [name for name in NUMBERS_OF_PROCESSES if _number(environment.get(name)) > 1]
    ranks = [name for name in RANKS if _number(environment.get(name)) > 0]
    named = " ".join(f"{name}={environment[name]}" for name in (*several, *ranks))
    if not named:
        return []
    return [
        f"{named}: this is one of several processes, as torchrun or mpirun start them; a run is "
        "trained by one process, on one device: start it with python, or unset these variables"
    ]


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def _is_text(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _readable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()

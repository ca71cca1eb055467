"""What every command needs of the process that it runs in, checked before anything else."""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import ParamSpec

from andiron import errors
from andiron.cli import streams
from andiron.cli.signals import exit_code, outcome
from andiron.config import flags

EXIT_USAGE = 2
# of torchrun and of mpirun: how many processes were started, and which of them this is
NUMBERS_OF_PROCESSES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
RANKS = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK")
Arguments = ParamSpec("Arguments")
Main = Callable[Arguments, int]


def command(
    main: Main[Arguments], *, trains: bool = False, joins_others: bool = False
) -> Main[Arguments]:
    """A main function whose surroundings are checked, and which ends if its result is lost.

    Ctrl-C ends it with a line, also while it imports. One that `joins_others` may be one of several
    processes of torchrun; others would each do the same, in silence.
    """

    @functools.wraps(main)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        has_result = not trains or flags.prints_only(sys.argv[1:])
        try:
            with streams.lasting(has_result=has_result):
                return _ended(lambda: main(*args, **kwargs), joins_others=joins_others)
        except streams.ResultLost as lost:
            return lost.exit_code

    return checked


# training continues where standard output cannot be written
training_command = functools.partial(command, trains=True)


def _ended(main: Callable[[], int], *, joins_others: bool) -> int:
    found = problems(sys.argv[1:], os.environ, joins_others=joins_others)
    if found:
        print(f"error: {errors.ConfigError(found)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        return main()
    except KeyboardInterrupt as error:
        print("; ".join(["interrupted", *outcome(error)]), file=sys.stderr)
        return exit_code(error)


def several(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """The rank of this process and the number of processes, where torchrun started several."""
    size = _number(environment.get("WORLD_SIZE"))
    is_launched = all(name in environment for name in OF_TORCHRUN)
    return (_number(environment["RANK"]), size) if is_launched and size > 1 else None


def problems(
    arguments: list[str], environment: Mapping[str, str], *, joins_others: bool = False
) -> list[str]:
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
    is_joined = joins_others and several(environment) is not None
    return found if is_joined else [*found, *_several_processes(environment)]


def _several_processes(environment: Mapping[str, str]) -> list[str]:
    """Each process would do the same as the others, in silence."""
    numbers = [name for name in NUMBERS_OF_PROCESSES if _number(environment.get(name)) > 1]
    ranks = [name for name in RANKS if _number(environment.get(name)) > 0]
    named = " ".join(f"{name}={environment[name]}" for name in (*numbers, *ranks))
    if not named:
        return []
    return [
        f"{named}: this is one of several processes, as torchrun or mpirun start them; only "
        "train.py runs in several, started by torchrun: start this with python, or unset these "
        "variables"
    ]


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def _is_text(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _readable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()

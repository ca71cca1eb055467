"""Checks of the process that a command runs in, made before anything else."""

import errno
import functools
import io
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from typing import ParamSpec

from andiron import errors
from andiron.interrupter import Interrupter
from andiron.plain import readable, wings
from andiron.shell.cli import answers, streams
from andiron.shell.cli.signals import Signals, exit_code, installed, outcome
from andiron.shell.config import flags, project

# variables of torchrun and mpirun: the number of processes, and the rank of this one
NUMBERS_OF_PROCESSES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
RANKS = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK")
# a file that cannot be read or written, for a reason that is no mistake of the program
OF_A_FILE = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES)
Arguments = ParamSpec("Arguments")
Main = Callable[Arguments, int]


def command(
    main: Main[Arguments],
    *,
    trains: bool = False,
    joins_others: bool = False,
    interrupted: str = "interrupted",
    failed: int | None = None,
) -> Main[Arguments]:
    """Wraps a main function: the process is checked first, and a lost result ends the command.

    An error of Andiron ends it with its message, and the exit code `failed` if given, Ctrl-C with
    the line `interrupted`, also during imports; with `--json` any error is an answer. Without
    `joins_others`, several processes of torchrun are refused: each would silently do the same work.
    With it the first alone prints a result.
    """

    @functools.wraps(main)
    def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        given = sys.argv[1:]
        prints_only = flags.prints_only(given)
        has_result, is_json = not trains or prints_only, answers.FLAG in given and not prints_only
        if is_json:
            sys.argv = [text for text in sys.argv if text != answers.FLAG]
        try:
            with (
                streams.safe_streams(has_result=has_result, is_apart=is_json) as output,
                nullcontext() if trains or is_first() else redirect_stdout(io.StringIO()),
                answers.given_to(output if is_json and is_first() else None),
            ):
                try:
                    # a command that trains installs its own signals
                    with nullcontext() if trains else installed(Signals(Interrupter())):
                        if lines := problems(given, os.environ, joins_others=joins_others):
                            raise errors.ConfigError(lines)
                        project.enter(is_noted=is_first() and not prints_only)
                        code = main(*args, **kwargs)
                except (Exception, KeyboardInterrupt) as error:
                    code = _ended(error, given, interrupted, failed)
            return code or (output.exit_code_if_lost if is_json else 0)
        except streams.ResultLost as lost:
            return lost.exit_code

    return wrapper


def _ended(error: BaseException, given: list[str], interrupted: str, failed: int | None) -> int:
    """The exit code of a command that ends with `error`, which is printed.

    Raises: `error`, one that is not Andiron's, unless it is an answer.
    """
    code, text = exit_code(error), errors.reason(error)
    if isinstance(error, KeyboardInterrupt):
        text = line = "; ".join([interrupted, *outcome(error)])
    elif isinstance(error, errors.AndironError):
        code, line = failed or code, f"error: {text}"
    elif isinstance(error, OSError) and error.errno in OF_A_FILE and error.filename:
        code, text = failed or code, f"{error.filename}: {error.strerror}"
        line = f"error: {readable.printable(text)}"
    elif answers.are_asked():
        line = traceback.format_exc()
    else:
        raise error
    print(line, file=sys.stderr)
    if answers.are_asked() and (error_answer := wings.optional("commands.error_answer")):
        answers.give(error_answer.error_object(error, text, code, given))
    return code


def is_first() -> bool:
    """Whether this is rank 0 of torchrun, or no process of it."""
    return not _number(os.environ.get("RANK"))


def rank_and_size(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """The rank of this process and the world size, if torchrun started several processes."""
    size = _number(environment.get("WORLD_SIZE"))
    is_launched = all(name in environment for name in OF_TORCHRUN)
    return (_number(environment["RANK"]), size) if is_launched and size > 1 else None


def problems(
    arguments: list[str], environment: Mapping[str, str], *, joins_others: bool = False
) -> list[str]:
    """The reasons why no command can run in this process, one line each."""
    lines, texts = [], arguments
    try:
        texts = [*arguments, os.getcwd()]
    except OSError as error:
        lines.append(
            f"the current directory cannot be used ({error.strerror}): it was removed, or may not "
            "be read; change to another"
        )
    for text in texts:
        shown = text.encode(errors="backslashreplace").decode()
        if shown != text:
            lines.append(f"{shown}: is not UTF-8 text; give or use one that is, in a UTF-8 locale")
    is_joined = joins_others and rank_and_size(environment) is not None
    return lines if is_joined else [*lines, *_launcher_problems(environment)]


def _launcher_problems(environment: Mapping[str, str]) -> list[str]:
    """Refuses to run in several processes: each would silently do the same work."""
    sizes = [name for name in NUMBERS_OF_PROCESSES if _number(environment.get(name)) > 1]
    ranks = [name for name in RANKS if _number(environment.get(name)) > 0]
    variables = " ".join(f"{name}={environment[name]}" for name in (*sizes, *ranks))
    if not variables:
        return []
    return [
        f"{variables}: this is one of several processes, as torchrun or mpirun start them; only "
        "train.py, replay, samples and recheck run in several, started by torchrun: start this "
        "with python, or unset these variables"
    ]


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0

"""`torchrun train.py`: rank 0 composes, claims the folder and records; the others follow it."""

import ctypes
import dataclasses
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import append_only, guarded_folders
from andiron.interrupter import Interrupter
from andiron.run_folder import RunFolder
from andiron.shell.cli.signals import EXIT_USAGE, Signals, exit_code
from andiron.shell.config import arguments as command_arguments
from andiron.shell.config.schema import Train
from andiron.shell.run import exhausted
from andiron.shell.run.log_file import unwritable

SECONDS_BETWEEN_LOOKS = 0.05  # at the store, for the start
START = "start"  # key in the store: how rank 0 starts, as JSON
# key in the store that outlasts restarts: the exit code of a failure that a restart would repeat
FINAL = "andiron/final"
PR_SET_PDEATHSIG = 1  # of Linux's prctl.h
log = logging.getLogger("andiron")


def main(
    arguments: list[str],
    conf_dir: Path | None,
    signals: Signals,
    launcher: int,
    rank: int,
    size: int,
) -> int:
    """Runs this process of a run, a child of the process `launcher`; returns the exit code."""
    # nothing is trained yet, and torch may wait for other ranks
    _end_with_parent(signal.SIGKILL, launcher)
    if _attempt() and _root(rank, size).check([FINAL]):
        return int(_root(rank, size).get(FINAL))
    return follow(signals, rank, size) if rank else lead(arguments, conf_dir, signals, size)


def lead(arguments: list[str], conf_dir: Path | None, signals: Signals, size: int) -> int:
    """Runs `train.py` as rank 0; sends the other ranks their work, or an exit code."""
    from andiron.shell.training import resume_arguments  # imports Hydra

    code = 1
    with ExitStack() as at_end:
        leader = Leader(size, signals.interrupter, at_end)
        try:
            options = command_arguments.parsed(arguments)
            if options.multirun or "hydra.mode=MULTIRUN" in options.overrides:
                reason = f"torchrun started {size} processes, and a sweep starts its own"
                raise errors.ConfigError(f"sweep: {reason}; start it with python")
            resume_arguments.train(arguments, conf_dir, signals, leader.share)
            code = 0
        except (errors.AndironError, KeyboardInterrupt) as error:
            code = exit_code(error)
            if code == EXIT_USAGE or isinstance(error, errors.NonFiniteError):
                _root(0, size).set(FINAL, str(code))  # a restart would fail again
            raise
        except SystemExit as error:  # of Hydra, which has shown its help
            code = int(error.code or 0)
            raise
        finally:
            leader.dismiss(code)
    return 0


class Leader:
    """Shares a run of rank 0 with the other processes; `at_end` leaves the group that it joins."""

    def __init__(self, size: int, interrupter: Interrupter, at_end: ExitStack):
        self._size, self._interrupter, self._at_end = size, interrupter, at_end
        self._world: Any = None  # once rank 0 has joined it

    def share(self, build: Callable[..., Any], config: Train) -> Callable[..., Any]:
        """`build` or `resume` of `experiment`, to be called in all processes."""
        from andiron.shell.training.joining import joined, options_of

        start = options_of(config)
        store = store_of_start(0, self._size)
        store.set(START, json.dumps(start))
        self._interrupter.join()
        self._world = self._at_end.enter_context(joined(store, 0, self._size, **start))
        self._interrupter.connect(self._world)
        _end_with_parent(signal.SIGTERM, os.getppid())  # the run is then stopped and saved

        def build_everywhere(*args: Any, interrupter: object, **options: object) -> Any:
            for rank in range(1, self._size):
                os.close(_opened_log(RunFolder(args[1]).rank_log(rank)))
            self._world.decided(lambda: (build.__name__, args, options))
            self._world.any(False)  # the others have opened their logs: the folder may be removed
            return build(*args, **options, interrupter=interrupter, world=self._world)

        return build_everywhere

    def dismiss(self, code: int) -> None:
        """Ends processes that still wait for work."""
        if self._world is None:
            store_of_start(0, self._size).set(START, json.dumps({"exit_code": code}))


def follow(signals: Signals, rank: int, size: int) -> int:
    """Runs another rank, which waits for rank 0 and writes only its log."""
    from andiron.shell.training.joining import joined

    store = store_of_start(rank, size)
    interrupter = signals.interrupter
    try:
        while not store.check([START]):  # `wait` would block signals
            time.sleep(SECONDS_BETWEEN_LOOKS)
        interrupter.join()
        start = json.loads(store.get(START))
        if "exit_code" in start:
            return int(start["exit_code"])
        with joined(store, rank, size, **start) as world:
            interrupter.connect(world)
            _end_with_parent(signal.SIGTERM, os.getppid())
            _train(world, interrupter)
    except errors.AndironError as error:
        log.error("%s", error)
        return exit_code(error)
    except KeyboardInterrupt as error:
        log.info("stopped: %s", error)
        return exit_code(error)
    return 0


def _train(world: Any, interrupter: Interrupter) -> None:
    """Builds or resumes the run that rank 0 names, and trains it."""
    from andiron.shell.assembly import devices
    from andiron.shell.training import experiment

    name, (config, run_dir, *args), options = world.decided(_not_called)
    interrupter.begin(config.interrupted_exit_code)
    _log_to(RunFolder(run_dir).rank_log(world.rank))
    world.any(False)
    quiet = dataclasses.replace(config, writers={}, render=None, show_layers=False, profile=None)
    with exhausted.explained(config.demands), devices.deterministic(config.deterministic):
        make = vars(experiment)[name]
        run = make(quiet, run_dir, *args, **options, interrupter=interrupter, world=world)
        interrupter.hear()
        interrupter.mark_begun()
        run.run()


def _not_called() -> Any:
    """Never called: only rank 0 decides."""


def store_of_start(rank: int, size: int) -> Any:
    """The part of the store for this start of the processes, the first or a restart."""
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(f"andiron/{_attempt()}", _root(rank, size))


@cache
def _root(rank: int, size: int) -> Any:
    """The store of torchrun, or rank 0's if torchrun has none."""
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://", rank, size))
    while hasattr(store, "underlying_store"):  # a part for each restart, in some versions of torch
        store = store.underlying_store
    return store


def _attempt() -> int:
    """The number of times that torchrun has restarted the processes of this run."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _opened_log(path: Path) -> int:
    """A descriptor that appends to the log, which rank 0 lists as the run's.

    Raises: RunFolderError if it cannot be written, or is not the run's.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        guarded_folders.list_file(path)
        return append_only.opener(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise unwritable(path, error) from error


def _log_to(path: Path) -> None:
    """Sends everything that this process prints and logs to a file."""
    descriptor = _opened_log(path)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, sys.stdout.fileno())
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)


def _end_with_parent(number: signal.Signals, parent: int) -> None:
    """Asks the system for a signal when torchrun dies, which was the parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)

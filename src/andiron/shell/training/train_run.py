"""Training as a command: a new run in a folder of its own, or a run resumed in its folder."""

import dataclasses
import gc
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.interrupter import Interrupter
from andiron.plain import wings
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.cli.signals import Signals, saved_before_launcher
from andiron.shell.config import arguments as command_arguments, leaves, quoting
from andiron.shell.config.composition import Returned
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import claim, exhausted, finished_run, resume_policy, run_record, status
from andiron.shell.training.stored_checkpoints import has_checkpoint, recorded_store, store_of

# wraps a function that builds a run, so that all processes call it
Share = Callable[[Callable[..., Any], Train], Callable[..., Any]]
HydraRecord = Mapping[str, str]  # Hydra's own account of the composition, by file name
Record = Mapping[Path, bytes]  # of the configuration: config.json and Hydra's account, by file


def train(
    config: Train,
    run_dir: Path,
    hydra_record: HydraRecord,
    interrupter: Interrupter | None = None,
    trusted: Trust | None = None,
    share: Share | None = None,
) -> None:
    """Trains a run from its configuration; with `resume`, continues the run in `run_dir`.

    With `trusted`, the configuration was read from a run folder, and names only what is allowed.
    Raises: Interrupted if `interrupter` stops it, with the exit code that the configuration gives;
    ConfigError for `overwrite` beside `resume`.
    """
    folder, interrupter = RunFolder(run_dir), interrupter or Interrupter()
    if config.resume is not None and config.overwrite:
        why = f"would remove the run that resume={config.resume} resumes; leave one of them out"
        raise errors.ConfigError([f"overwrite=true: {why}"])
    try:
        interrupter.begin(config.interrupted_exit_code)
        record = {folder.config: files.as_indented_json(config.recorded())}
        record |= {folder.hydra / name: text.encode() for name, text in hydra_record.items()}
        if config.resume is not None and _can_be_resumed(config, folder, interrupter):
            trust = trusted or Trust(tuple(config.trust))
            _resume(config, folder, record, interrupter, trust, share)
        else:
            _start(config, folder, record, interrupter, trusted, share)
    except errors.Interrupted as error:
        error.add(_outcome(config, folder, trusted), config.interrupted_exit_code)
        raise


def _start(
    config: Train,
    folder: RunFolder,
    record: Record,
    interrupter: Interrupter,
    trusted: Trust | None,
    share: Share | None,
) -> None:
    with ExitStack() as at_end, exhausted.explained(config.demands):
        with interrupter.held_back():
            report = at_end.enter_context(claim.claimed(folder, overwrite=config.overwrite))
            with status.write_errors_explained(folder):
                run_record.write(folder, record)
        build = _imported("build", config, interrupter, share, at_end)
        built = build(config, folder.path, interrupter=interrupter, trusted=trusted)
        interrupter.hear()
        built.run(report)


def _resume(
    config: Train,
    folder: RunFolder,
    record: Record,
    interrupter: Interrupter,
    trusted: Trust,
    share: Share | None,
) -> None:
    plain = dataclasses.asdict(config)
    recorded = run_record.config(folder, trusted.with_config(plain))
    changes = resume_policy.changes(dataclasses.asdict(recorded), plain)
    resume_policy.check(changes, config.resume_allow)
    is_whole = finished_run.is_whole(folder)
    if is_whole and not finished_run.may_train(folder, recorded, config, changes):
        finished_run.log_end(folder, recorded)
        return
    changed = resume_policy.applied({}, changes)
    explained = exhausted.explained(config.demands)
    with claim.resumed(folder) as report, explained, ExitStack() as at_end:
        resume = _imported("resume", config, interrupter, share, at_end)
        resumed = resume(
            config,
            folder.path,
            leaves.by_name(changes),
            record,
            interrupter=interrupter,
            is_whole=is_whole,
            # resume=auto: the whole configuration comes from the command line
            trusted=None if config.resume == "auto" else trusted.with_config(changed),
        )
        interrupter.hear()
        interrupter.mark_begun()
        if resumed.is_done:
            resumed.run()
            finished_run.log_end(folder, recorded)
            return
        resume_policy.log_changes(changes)
        resumed.run(report)


def _outcome(config: Train, folder: RunFolder, trusted: Trust | None) -> str:
    """The state of an interrupted run, and how to continue it."""
    if not run_record.holds_run(folder):
        return f"nothing was trained, and nothing is left in {folder.path}: start it again"
    resume = quoting.typed("resume", folder.path)
    try:
        if has_checkpoint(config.checkpoint, folder, Interrupter(), trusted):
            return f"{resume} resumes the run from its newest checkpoint"
    except errors.AndironError as error:  # a store that cannot be reached now
        return f"{resume} resumes the run once this is fixed: {error}"
    return f"{folder.path} holds no checkpoint to resume from; overwrite=true starts it again"


def _can_be_resumed(config: Train, folder: RunFolder, interrupter: Interrupter) -> bool:
    """Whether there is a run to resume; `resume=auto` starts one if none has made an update."""
    if config.resume != "auto":
        _check_begun(config, folder)
        return True
    claim.settle(folder)
    if not run_record.holds_run(folder) or status.is_untrained(folder):
        return False
    if status.read(folder).get("status") == State.DONE:
        return True
    if not has_checkpoint(config.checkpoint, folder, interrupter):
        if recorded_store(folder) not in (None, store_of(config.checkpoint)):
            raise errors.RunFolderError(
                f"{folder.config}: names another checkpoint.store, which may have checkpoints of "
                "the run; give that store, or choose another hydra.run.dir"
            )
        raise errors.RunFolderError(
            f"{folder.path}: holds a run that has trained, and there is no checkpoint of it in "
            f"{'its store' if store_of(config.checkpoint) else folder.checkpoints}: restore one, "
            "or make its place reachable; overwrite=true instead of restart=requeued starts again; "
            f"a job of a sweep starts again after `{wings.command(f'runs rm {folder.path}')}`"
        )
    if not folder.config.is_file():
        raise errors.RunFolderError(
            f"{folder.config}: missing, beside checkpoints of the run; restore it, or give another "
            "hydra.run.dir, or overwrite=true instead of restart=requeued to start again"
        )
    return True


def _check_begun(config: Train, folder: RunFolder) -> None:
    """Refuses a run that ended before there was anything to resume.

    Raises: RunFolderError.
    """
    is_in_folder = not (store_of(config.checkpoint) or recorded_store(folder))
    is_empty = is_in_folder and not folder.checkpoints.exists()
    again, missing = quoting.typed("hydra.run.dir", folder.path), ""
    if status.is_untrained(folder):
        missing = "update"
    elif is_empty and status.read(folder).get("status") != State.DONE:
        missing, again = "checkpoint", f"{again} overwrite=true"
    if missing:
        raise errors.RunFolderError(
            f"{folder.path}: the run ended before its first {missing}, so there is nothing to "
            f"resume; {again} starts it again"
        )


def _imported(
    name: str, config: Train, interrupter: Interrupter, share: Share | None, at_end: ExitStack
) -> Callable[..., Any]:
    """A function of `experiment`, shared or not; imports torch, which takes a second or two.

    Until `at_end` torch has the settings of `config`, and errors after a signal are Interrupted.

    Raises: Interrupted if a signal came meanwhile.
    """
    at_end.enter_context(interrupter.raised_for_errors())
    with interrupter.held_back():  # an exception within torch's import can abort the process
        is_first = "torch" not in sys.modules
        gc.disable()  # imports make many objects and no garbage: collecting takes 0.1 s
        from andiron.shell.assembly import devices
        from andiron.shell.training import experiment

        if is_first:
            gc.freeze()  # nor does a later collection look through them
        gc.enable()
    at_end.enter_context(devices.deterministic(config.deterministic))
    function: Callable[..., Any] = getattr(experiment, name)
    return function if share is None else share(function, config)


@dataclasses.dataclass(frozen=True)
class Training:
    """The task of this command; `signals` are the signals of the process."""

    arguments: list[str]
    signals: Signals
    resumes: bool = False  # resumes a run that the folder already holds, as resume=auto does
    share: Share | None = None  # for several processes

    def __call__(
        self,
        config: Train,
        run_dir: Path,
        hydra_record: HydraRecord,
        trusted: Trust | None = None,
    ) -> Returned:
        """Trains a run, resumed if `trusted` is given; returns the objective in a sweep."""
        if self.resumes and config.resume is None:
            config = dataclasses.replace(config, resume="auto", overwrite=False)
        self.signals.on_immediate_exit = partial(status.write_killed, RunFolder(run_dir))
        interrupter = self.signals.interrupter
        is_alone = not command_arguments.parsed(self.arguments).multirun
        if config.debug and self.share is not None:
            reason = "stops and resumes a run within one process; start it with python"
            raise errors.ConfigError([f"debug=true: {reason}"])
        if config.debug and trusted is None:
            debug_run = wings.optional("runs.debug_run")
            if debug_run is None:
                reason = "this installation lacks andiron/wings/runs, which compares the runs"
                raise errors.ConfigError([f"debug=true: {reason}; install all of andiron"])

            with answers.given_to(None):
                task = partial(train, hydra_record=hydra_record)
                debug_run.run(config, run_dir, task, interrupter)
        else:
            silenced = nullcontext() if is_alone else answers.given_to(None)
            with saved_before_launcher(self.signals), silenced:
                train(config, run_dir, hydra_record, interrupter, trusted, self.share)
        if is_alone and answers.are_asked():
            answers.give(finished_run.plain(RunFolder(run_dir)))
        if is_alone or config.debug:
            return None
        objective = wings.optional("runs.objective")
        return objective.values(RunFolder(run_dir), config.objective) if objective else None

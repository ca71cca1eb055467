"""Training as a command: a new run in a folder of its own, or a run resumed in its folder."""

import dataclasses
import gc
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
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
from andiron.shell.config import arguments as command_arguments, leaves, node_checks, quoting
from andiron.shell.config.composition import Returned
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron.shell.run import (
    claim, exhausted, finished_run, lab_options, resume_policy, run_record, status,
)  # fmt: skip

# wraps a function that builds a run, so that all processes call it
Share = Callable[[Callable[..., Any], Train], Callable[..., Any]]
HydraRecord = Mapping[str, str]  # Hydra's own account of the composition, by file name


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
    folder = RunFolder(run_dir)
    others = {folder.hydra / name: text.encode() for name, text in hydra_record.items()}
    trained = _TrainedRun(config, folder, interrupter or Interrupter(), others, trusted, share)
    if config.resume is not None and config.overwrite:
        why = f"would remove the run that resume={config.resume} resumes; leave one of them out"
        raise errors.ConfigError(f"overwrite=true: {why}")
    try:
        trained.interrupter.begin(config.interrupted_exit_code)
        (trained.resume if _is_resumed(config, folder) else trained.start)()
    except errors.Interrupted as error:
        error.add(_outcome(config, folder), config.interrupted_exit_code)
        raise


@dataclasses.dataclass(frozen=True)
class _TrainedRun:
    """A run that this command trains in its folder; `others` are recorded with it."""

    config: Train
    folder: RunFolder
    interrupter: Interrupter
    others: Mapping[Path, bytes]
    trusted: Trust | None
    share: Share | None

    def start(self) -> None:
        """Claims the folder for a new run, and trains it."""
        config, folder = self.config, self.folder
        with ExitStack() as at_end, exhausted.explained(config.demands):
            with self.interrupter.held_back():
                report = at_end.enter_context(claim.claimed(folder, overwrite=config.overwrite))
                options = files.as_indented_json(config.recorded())
                with status.write_errors_explained(folder):  # seen while the data are read
                    run_record.write(folder, {folder.config: options, **self.others})
            self._made("build", at_end, trusted=self.trusted).run(report)

    def resume(self) -> None:
        """Continues the run in the folder, unless it is done and the changes add nothing."""
        config, folder = self.config, self.folder
        trusted, plain = self.trusted or Trust(tuple(config.trust)), dataclasses.asdict(config)
        recorded = run_record.config(folder, trusted.with_config(plain))
        changes = resume_policy.changes(dataclasses.asdict(recorded), plain)
        resume_policy.check(changes, config.resume_allow)
        is_whole = finished_run.is_whole(folder)
        if is_whole and not finished_run.may_train(folder, recorded, config, changes):
            finished_run.log_end(folder, recorded)
            return
        # resume=auto: the whole configuration comes from the command line
        own = trusted.with_config(resume_policy.applied({}, changes))
        trust = None if config.resume == "auto" else own
        explained = exhausted.explained(config.demands)
        with claim.resumed(folder) as report, explained, ExitStack() as at_end:
            named = leaves.by_name(changes)
            options = {"others": self.others, "is_whole": is_whole, "trusted": trust}
            resumed = self._made("resume", at_end, named, **options)
            self.interrupter.mark_begun()
            if resumed.is_done:
                finished_run.log_end(folder, recorded)
            resumed.run(report)

    def _made(self, name: str, at_end: ExitStack, *changes: Any, **options: Any) -> Any:
        """The run by a function of `experiment`; imports torch, which takes a second or two.

        Until `at_end` torch has the settings of the configuration, and errors after a signal are
        Interrupted.

        Raises: Interrupted if a signal came meanwhile.
        """
        at_end.enter_context(self.interrupter.raised_for_errors())
        # an exception within torch's import can abort the process
        with self.interrupter.held_back():
            is_first = "torch" not in sys.modules
            gc.disable()  # imports make many objects and no garbage: collecting takes 0.1 s
            from andiron.shell.assembly import devices
            from andiron.shell.training import experiment

            if is_first:
                gc.freeze()  # nor does a later collection look through them
            gc.enable()
        at_end.enter_context(devices.deterministic(self.config.deterministic))
        make: Callable[..., Any] = vars(experiment)[name]
        if self.share is not None:
            make = self.share(make, self.config)
        parts = self.config, self.folder.path, *changes
        made = make(*parts, interrupter=self.interrupter, **options)
        self.interrupter.hear()
        return made


def _is_resumed(config: Train, folder: RunFolder) -> bool:
    """Whether a run is resumed; `resume=auto` starts one if none has made an update.

    Raises: RunFolderError for a run without anything to resume.
    """
    if config.resume is None:
        return False
    again = quoting.typed("hydra.run.dir", folder.path)
    if config.resume == "auto":
        claim.settle(folder)
        if not run_record.holds_run(folder) or status.is_untrained(folder):
            return False
    elif status.is_untrained(folder):
        raise errors.RunFolderError(
            f"{folder.path}: the run ended before its first update, so there is nothing to resume; "
            f"{again} starts it again"
        )
    is_done = status.read(folder).get("status") == State.DONE
    if not (is_done or may_have_checkpoint(config, folder)):
        raise errors.RunFolderError(
            f"{folder.path}: holds a run that has trained, and there is no checkpoint of it in "
            f"{folder.checkpoints}: restore one, or give the checkpoint.store that has one; "
            f"{again} overwrite=true starts it again, and a job of a sweep the same command after "
            f"`{wings.command(f'runs rm {folder.path}')}`"
        )
    return True


def may_have_checkpoint(config: Train, folder: RunFolder) -> bool:
    """Whether the folder has a checkpoint, whole or damaged, or the run has a store elsewhere."""
    options = [config.checkpoint]
    with suppress(OSError, ValueError, TypeError, KeyError):  # without a record
        options.append(files.read_json(folder.config)["checkpoint"])
    return folder.has_checkpoint() or any(map(_has_own_store, options))


def _has_own_store(checkpoint: Any) -> bool:
    """Whether the option `checkpoint` names a store, or a strategy of the user's, which may."""
    node = checkpoint if isinstance(checkpoint, dict) else {}
    is_shipped = node_checks.is_shipped(str(node.get("_target_", "andiron.")))
    return node.get("store") is not None or not is_shipped


def _outcome(config: Train, folder: RunFolder) -> str:
    """The state of an interrupted run, and how to continue it."""
    if not run_record.holds_run(folder):
        return f"nothing was trained, and nothing is left in {folder.path}: start it again"
    if may_have_checkpoint(config, folder):
        resume = quoting.typed("resume", folder.path)
        return f"{resume} resumes the run from its newest checkpoint"
    return f"{folder.path} holds no checkpoint to resume from; overwrite=true starts it again"


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
            raise errors.ConfigError(f"debug=true: {reason}")
        if config.debug and trusted is None:
            debug_run = lab_options.module("ask.debug_run", "debug=true")
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
        runs = wings.optional("runs.run_list")
        return runs.objectives(RunFolder(run_dir), config.objective) if runs else None

"""Training as a command: compose and check, claim a folder, build, fit; or go on in the folder of a run."""

import dataclasses
import gc
import logging
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from andiron import errors, files
from andiron.commands import command_line
from andiron.commands.signals import Signals
from andiron.run import resume_policy
from andiron.config.schema import Train
from andiron.interrupter import Interrupter
from andiron.run import folder

log = logging.getLogger("andiron")


def train(
    config: Train,
    run_dir: Path,
    hydra_record: dict[str, str],
    interrupter: Interrupter | None = None,
) -> None:
    """One run in its own folder, from the configuration to the trained model; with `resume`, from where it was left.

    Raises: Interrupted if `interrupter` says so, with the exit code that the config asks for; ConfigError for `overwrite`
    beside `resume`.
    """
    if config.resume is not None and config.overwrite:
        why = (
            f"would remove the run that resume={config.resume} goes on with; leave one of them out"
        )
        raise errors.ConfigError([f"overwrite=true: {why}"])
    try:
        if config.resume is not None and _can_go_on(config, run_dir):
            _go_on(config, run_dir, hydra_record, interrupter)
        else:
            _start(config, run_dir, hydra_record, interrupter)
    except errors.Interrupted as error:
        error.exit_code = config.interrupted_exit_code or error.exit_code
        raise


def _start(
    config: Train, run_dir: Path, hydra_record: dict[str, str], interrupter: Interrupter | None
) -> None:
    with folder.claimed(run_dir, overwrite=config.overwrite or config.resume == "auto"):
        with folder.written(run_dir):
            config.save(run_dir / "config.json")
            folder.write_all(run_dir / ".hydra", hydra_record)
        _build(config, run_dir, interrupter, None).run()


def _go_on(
    config: Train, run_dir: Path, hydra_record: dict[str, str], interrupter: Interrupter | None
) -> None:
    record = Train.load(run_dir / "config.json")
    found = resume_policy.changes(dataclasses.asdict(record), dataclasses.asdict(config))
    resume_policy.check(found, config.resume_allow)
    told = folder.status(run_dir)
    if told.get("status") == "done" and not resume_policy.has_more_to_do(found):
        log.info("%s is done, %s", run_dir, _done_in_words(run_dir, record.num_epochs))
        return
    before = folder.contents(run_dir, ["config.json", *(f".hydra/{name}" for name in hydra_record)])
    with folder.resumed(run_dir) as begins:
        for line in resume_policy.in_words(found):
            log.info("changed: %s", line)
        made = _build(config, run_dir, interrupter, resume_policy.as_plain(found))
        begins()
        begun_at = made.learner.updates
        with folder.put_back(run_dir, before, unless=lambda: made.learner.updates > begun_at):
            with folder.written(run_dir):
                folder.write_all(
                    run_dir / ".hydra", hydra_record
                )  # what composes the config from here on, and only if it is sound
            made.run()


def _done_in_words(run_dir: Path, num_epochs: int) -> str:
    try:
        epochs = files.read_json(run_dir / "summary.json")["epochs"]
    except (OSError, ValueError, TypeError, KeyError):  # removed, or damaged
        epochs = num_epochs
    if epochs != num_epochs:
        return f"stopped early after epoch {epochs} of {num_epochs}; other early_stopping options would have it go on"
    return f"all of its {num_epochs} epochs: nothing is left to do; num_epochs=... trains it for longer"


def _can_go_on(config: Train, run_dir: Path) -> bool:
    """Whether there is a run to go on with: `resume=auto` starts one where there is none, or where nothing of it was saved."""
    if config.resume != "auto":
        return True
    if not folder.holds_run(run_dir):
        return False
    if folder.status(run_dir).get("status") == "done":
        return True
    is_saved = (run_dir / "config.json").is_file() and any((run_dir / "checkpoints").glob("step-*"))
    if not is_saved:
        log.warning("%s holds a run of which no checkpoint was saved: it is started again", run_dir)
    return is_saved


def _build(
    config: Train,
    run_dir: Path,
    interrupter: Interrupter | None,
    changes: Mapping[str, list[Any]] | None,
) -> Any:
    interrupter = interrupter or Interrupter()
    interrupter.is_heard = (
        True  # a signal that raised amid the import of torch could abort the process
    )
    gc.disable()  # of the many objects that imports make none is garbage: looking for some takes 0.1 s here
    from andiron import (
        experiment,
    )  # imports torch: a second or two, which a mistake above need not wait for

    gc.enable()
    interrupter.is_heard = False
    if interrupter.asked:
        raise interrupter.asked
    return experiment.build(config, run_dir, interrupter=interrupter, changes=changes)


def main(conf_dir: Path | None = None) -> int:
    """What `python train.py` does; the exit code."""
    signals = Signals(Interrupter())

    def told(config: Train, run_dir: Path, hydra_record: dict[str, str]) -> None:
        signals.last_words = partial(folder.left_at_once, run_dir)
        train(config, run_dir, hydra_record, signals.interrupter)

    return command_line.main(told, conf_dir, sys.argv[1:], signals=signals, resumes=True)

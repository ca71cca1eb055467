"""Makes an update of a run again and shows it by layer; or the non-finite one that ended it."""

import argparse
import code
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch import nn

from andiron import checkpoint, errors
from andiron.checkpoint import Checkpoint, contents
from andiron.data.loader import DataLoader
from andiron.data.structures import tensors_in
from andiron.learner import nonfinite
from andiron.learner.extras import state_format
from andiron.learner.extras.nonfinite_cause import Step, diagnosis, fingerprint
from andiron.plain import readable
from andiron.protocols import Point
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, configured_learner, devices
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.cli import answers, process
from andiron.shell.config.schema import FROM_PYTHON
from andiron.shell.config.trust import LIST_ALONE, Trust
from andiron.shell.run import named_folder, run_record
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import (
    COUNT, FLAG, TEXT, VALUE, by_name, closed, list_of, or_null,
)  # fmt: skip
from andiron.wings.commands.declaration import Command
from andiron.wings.trained import named_output
from andiron.writers import TensorBoardWriter
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.instruments import Instrument, Update
from andiron_lab.ask.layer_statistics import KINDS, LayerStatistics
from andiron_lab.ask.past_sessions import PastSessions

EXIT_SAME, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2


@errors.exits_refused()
def replay(folder: Path, trusted: Trust = LIST_ALONE) -> bool:
    """Prints where the update fails; returns whether its gradients equal the run's bit for bit.

    Raises: DataError if the folder is damaged or holds no update; ConfigError if the configuration
    of the run cannot be used.
    """
    saved = _saved_update(folder)
    state = state_format.checked(saved.state, saved.place(contents.STATE))
    recorded = state["step"]
    step = Step(**{name: recorded[name] for name in Step.__annotations__})
    run = RunFolder(folder.parents[1])
    _check_is_configured(run, folder)
    past, before = PastSessions(run, trusted, {}), state["updates"]
    config = past.config_at(before)
    config = dataclasses.replace(config, checkpoint=None, observers=None, start_from=None)
    size_limit = SizeLimit.of(saved.model, saved.place(contents.MODEL))
    with ExitStack() as at_end:
        at_end.enter_context(past.threads(before, None))
        at_end.enter_context(devices.deterministic(config.deterministic))
        built = components.build(config, trusted, size_limit)
        learner = at_end.enter_context(configured_learner.learner(config, built, folder))
        learner.load(saved)
        batches = _batches(step, built.train, saved.place(contents.STATE))
        bad_modules = _watch_outputs(learner.model)
        with learner.training(built.train):
            gradients, _ = learner.updater.gradients(batches, learner.position, built.train)
        cause = diagnosis(step, learner.model, gradients, batches, built.world)
    first = f"first output of nan or inf: {bad_modules[0]}" if bad_modules else ""
    where = first or "every module's output is finite"
    replayed, recorded_gradients = fingerprint(gradients), recorded["gradients"]
    comparison = _comparison(replayed, recorded_gradients)
    is_same = bool(replayed == recorded_gradients)
    answer = {"step": str(step), "cause": cause, "outputs": where, "comparison": comparison}
    if not answers.give({"folder": str(folder), "same_bits": is_same, **answer}):
        print(readable.printable(f"{step}\n{cause}\n{where}\n{comparison}"))
    return is_same


def _check_is_configured(run: RunFolder, folder: Path) -> None:
    """Refuses a run that Python code built, which cannot be built again from its record."""
    options = run_record.read_json(run, run.config)
    if isinstance(options, dict) and FROM_PYTHON in options:
        remedy = f"{nonfinite.in_python(folder)} runs the step again"
        raise errors.RunFolderError(f"{run.path}: a run started from Python; {remedy}")


def _saved_update(folder: Path) -> Checkpoint:
    """The state before the update that is saved in the folder."""
    is_run = RunFolder(folder).config.is_file()
    saved = checkpoint.load(folder) if folder.is_dir() and not is_run else None
    if saved is None or "step" not in saved.state:
        why = "holds no update to replay" if saved or is_run else "there is no such folder"
        place = RunFolder(Path("<run folder>")).nonfinite
        raise errors.DataError(f"{folder}: {why}; name a folder below {place}, or give --update N")
    return saved


def _batches(step: Step, train: DataLoader, file: str) -> list[Any]:
    """The batches of a step that a file records."""
    start = step.first_batch - 1
    end = start + step.num_batches
    if not 0 <= start < end <= len(train) or not step.epoch:
        allowed = f"within {len(train)} batches"
        raise state_format.wrong(file, "step", [step.epoch, start + 1, end], allowed)
    return [train.batch(step.epoch - 1, number) for number in range(start, end)]


def _watch_outputs(model: nn.Module) -> list[str]:
    """Hooks the submodules; the list then fills with those whose output is non-finite, in order."""
    names = []
    for name, module in model.named_modules():

        def watch(module: object, inputs: object, output: object, name: str = name) -> None:
            if not all(bool(tensor.isfinite().all()) for tensor in tensors_in(output)):
                names.append(name or type(module).__name__)

        module.register_forward_hook(watch)
    return names


def _comparison(replayed: dict[str, Any], recorded: dict[str, Any]) -> str:
    if replayed == recorded:
        return "the same gradients as in the run, bit for bit"
    norms = replayed["norms"]
    differing = [name for name, norm in recorded["norms"].items() if norm != norms.get(name)]
    return (
        f"not the gradients of the run (loss {replayed['loss']}, was {recorded['loss']}; norms "
        f"differ at {', '.join(differing) or 'none'}): data, code, versions or hardware differ"
    )


@errors.exits_refused()
def show(run: Recorded, options: argparse.Namespace) -> bool:
    """Prints an update that is made again; returns whether what the run has of it is the same.

    It is made with the updates up to the next one that the run logged or saved.
    """
    number, kinds = options.update, options.show.split(",")
    _check(options, kinds)
    seen = LayerStatistics(number, per_sample=options.per_sample)
    prompt = [_Prompt(number)] if options.debug else []
    first, last = max(number - 1, run.beginning + 1), run.next_record(number)
    stretch = run.updates(first, last, seen, *prompt, from_start=options.from_start)
    if seen.update is None and stretch.last < number:
        raise errors.RunFolderError(
            f"{run.folder.path}: made again, it ends after update {stretch.last}; {stretch}"
        )
    rows, update = seen.rows(kinds), seen.update
    if options.into and update and process.is_first():
        histograms = {f"{kind}/{n}": t for kind in kinds for n, t in seen.tensors[kind].items()}
        writer = TensorBoardWriter(RunFolder(options.into).tensorboard)
        writer.write(Point("train", number, update.epoch + 1, {}, histograms=histograms))
        writer.close()
    if not answers.give({
        "run": str(run.folder.path), "update": number, "samples": update and update.indices,
        "same_bits": not stretch.differences, "comparison": str(stretch), "layers": rows,
        "sample_norms": seen.samples,
    }):  # fmt: skip
        _print_layers(rows)
        if seen.samples is not None:
            print(f"norm of each sample's gradient: {seen.samples}")
        print(readable.printable(str(stretch)))
    return not stretch.differences


def _print_layers(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Prints a table of the layers for each kind of tensor."""
    for kind, layers in rows.items():
        print(f"{kind:<32} {'norm':>10} {'largest':>10} {'zeros':>6} nonfinite cosine")
        for row in layers:
            cosine = "" if row["cosine"] is None else f"{row['cosine']:.3f}"
            print(
                f"{readable.printable(row['layer']):<32} {row['norm']:10.4g} "
                f"{row['largest']:10.4g} {row['zeros']:6.1%} {row['nonfinite']:9} {cosine:>6}"
            )


def _check(options: argparse.Namespace, kinds: list[str]) -> None:
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        hint = errors.nearest(unknown[0], KINDS)
        raise errors.SelectionError(f"--show {unknown[0]}: is none of {', '.join(KINDS)}{hint}")
    is_of_batch = "activations" in kinds or options.per_sample or options.debug
    if is_of_batch and process.rank_and_size(os.environ):
        raise errors.SelectionError(
            "activations, --per-sample and --debug: each process sees its part of a batch alone; "
            "several show gradients, updates and weights"
        )
    if options.debug and not sys.stdin.isatty():
        raise errors.SelectionError("--debug: opens a prompt, and needs a terminal")
    if options.into:
        named_output.check_folder(options.into)


class _Prompt(Instrument):
    """Opens a prompt once the gradients of the update `number` are there."""

    def __init__(self, number: int):
        self._number = number

    def computed(self, update: Update) -> None:
        """Opens the prompt."""
        if update.number == self._number:
            names = {
                "model": update.learner.model, "batch": update.batches[0],
                "item": update.items[0], "gradients": update.gradients, "update": update,
            }  # fmt: skip
            code.interact(f"update {update.number}: {', '.join(names)}", local=names)


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description=__doc__)
    parser.add_argument("folder", help="a run, with --update; or <run>/nonfinite/update-<number>")
    parser.add_argument("--update", type=declaration.count, metavar="N", help="counted from 1")
    parser.add_argument("--show", default=KINDS[0], metavar="KINDS", help=", ".join(KINDS))
    parser.add_argument("--per-sample", action="store_true", help="norms of samples' gradients")
    parser.add_argument("--into", type=Path, help="writes histograms for TensorBoard there")
    parser.add_argument("--debug", action="store_true", help="opens a prompt at its gradients")
    parser.add_argument("--from-start", action="store_true", help="without a checkpoint before it")
    declaration.add_trust(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    trusted = declaration.trusted(options)
    if options.update:
        run = Recorded(named_folder.run_folder_of(options.folder), trusted)
        with run.together():
            is_same = show(run, options)
    else:
        is_same = replay(Path(options.folder).absolute(), trusted)
    return EXIT_SAME if is_same else EXIT_DIFFERENT


ANSWERS = [closed({
    "folder": TEXT, "same_bits": FLAG, "step": TEXT, "cause": TEXT, "outputs": TEXT,
    "comparison": TEXT,
}), closed({
    "run": TEXT, "update": COUNT, "samples": list_of(list_of(COUNT)), "same_bits": FLAG,
    "comparison": TEXT, "sample_norms": {"anyOf": [list_of(VALUE), or_null(TEXT)]},
    "layers": by_name(list_of(closed({
        "layer": TEXT, "norm": VALUE, "largest": VALUE, "zeros": VALUE, "nonfinite": COUNT,
        "cosine": VALUE,
    }))),
})]  # fmt: skip
main = Command(
    _parser, ANSWERS, _run, page="ask_a_run.md", failed=EXIT_UNUSABLE, joins_others=True
)

"""Recomputes the non-finite update that ended a run, from the state that the run saved."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from andiron import checkpoint, errors
from andiron.checkpoint import contents
from andiron.data.structures import tensors_in
from andiron.learner import nonfinite
from andiron.learner.extras import state_format
from andiron.learner.extras.nonfinite_cause import Step, diagnosis, fingerprint
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, configured_learner
from andiron.shell.assembly.network import SizeLimit
from andiron.shell.cli import answers, command_line, process
from andiron.shell.config.schema import FROM_PYTHON
from andiron.shell.config.trust import LIST_ALONE, Trust
from andiron.shell.run import run_record

EXIT_SAME, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2


@errors.exits_refused()
def replay(folder: Path, trusted: Trust = LIST_ALONE) -> bool:
    """Prints where the update fails; returns whether its gradients equal the run's bit for bit.

    Raises: DataError if the folder is damaged or holds no update; ConfigError if the configuration
    of the run cannot be used.
    """
    saved = checkpoint.load(folder) if folder.is_dir() else None
    if saved is None or "step" not in saved.state:
        why = "holds no update to replay" if saved else "there is no such folder"
        place = RunFolder(Path("<run folder>")).nonfinite
        raise errors.DataError(f"{folder}: {why}; name a folder below {place}")
    state = state_format.checked(saved.state, saved.place(contents.STATE))
    recorded = state["step"]
    step = Step(**{name: recorded[name] for name in Step.__annotations__})
    run = RunFolder(folder.parents[1])
    recorded_options = run_record.read_json(run, run.config)
    if isinstance(recorded_options, dict) and FROM_PYTHON in recorded_options:
        remedy = f"{nonfinite.in_python(folder)} runs the step again"
        raise errors.RunFolderError(f"{run.path}: a run started from Python; {remedy}")
    config = run_record.config(run, trusted)
    config = dataclasses.replace(
        config, checkpoint=None, render=None, observers=None, start_from=None, test_weights="last"
    )
    size_limit = SizeLimit.of(saved.model, saved.place(contents.MODEL))
    built = components.build(config, trusted, size_limit)
    with configured_learner.learner(config, built, folder) as learner:
        learner.load(saved)
        start = step.first_batch - 1
        end = start + step.num_batches
        if not 0 <= start < end <= len(built.train) or not step.epoch:
            file, allowed = saved.place(contents.STATE), f"within {len(built.train)} batches"
            raise state_format.wrong(file, "step", [step.epoch, start + 1, end], allowed)
        batches = [built.train.batch(step.epoch - 1, number) for number in range(start, end)]
        bad_modules = _watch_outputs(learner.model)
        with learner.training(built.train):
            gradients, _ = learner.updater.gradients(batches, learner.position, built.train)
        cause = diagnosis(step, learner.model, gradients, batches)
    first = f"first output of nan or inf: {bad_modules[0]}" if bad_modules else ""
    where = first or "every module's output is finite"
    replayed, recorded_gradients = fingerprint(gradients), recorded["gradients"]
    comparison = _comparison(replayed, recorded_gradients)
    is_same = bool(replayed == recorded_gradients)
    answer = {"step": str(step), "cause": cause, "outputs": where, "comparison": comparison}
    if not answers.give({"folder": str(folder), "same_bits": is_same, **answer}):
        print(readable.printable(f"{step}\n{cause}\n{where}\n{comparison}"))
    return is_same


def _watch_outputs(model: nn.Module) -> list[str]:
    """Hooks the submodules; the list then fills with those whose output is non-finite, in order."""
    names = []
    for name, module in model.named_modules():

        def watch(module: Any, inputs: Any, output: Any, name: str = name) -> None:
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


@partial(process.command, failed=EXIT_UNUSABLE)
def main() -> int:
    """Runs `python scripts/replay.py`; returns the exit code."""
    parser = answers.Parser(
        description="Recompute the update that ended a run because of NaN or infinity."
    )
    parser.add_argument("folder", type=Path, help="<run folder>/nonfinite/update-<number>")
    command_line.add_trust(parser)
    options = parser.parse_args()
    folder = options.folder.absolute()
    return EXIT_SAME if replay(folder, command_line.trusted(options)) else EXIT_DIFFERENT

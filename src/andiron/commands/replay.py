"""The step that ended a run, run again: from the folder that the run left of it."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from torch import nn

from andiron import checkpoint, errors
from andiron.build import components, configured_learner
from andiron.config.schema import Train
from andiron.learner import nonfinite

EXIT_SAME, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2


def replay(folder: Path) -> bool:
    """Prints where the step goes wrong; whether its gradients are, bit for bit, those that the run met.

    Raises: DataError if the folder is damaged or holds no step; ConfigError if the run's record is not usable.
    """
    left = checkpoint.load(folder)
    if "step" not in left.state:
        raise errors.DataError(
            f"{folder}: holds no step to run again; name a folder below a run's nonfinite/"
        )
    step = nonfinite.Step(
        **{
            field.name: left.state["step"][field.name]
            for field in dataclasses.fields(nonfinite.Step)
        }
    )
    config = Train.load(folder.parents[1] / "config.json")
    built = components.build(dataclasses.replace(config, checkpoint=None, render=None))
    with configured_learner.learner(
        dataclasses.replace(config, checkpoint=None, render=None), built, folder
    ) as learner:
        learner.load(left)
        first = step.first_batch - 1
        batches = [
            built.train.batch(step.epoch - 1, first + number) for number in range(step.num_batches)
        ]
        outputs = _watched(learner.model)
        with learner.training(built.train):
            gradients, _ = learner.updater.gradients(batches, learner.position, built.train)
        found, met = nonfinite.fingerprint(gradients), left.state["step"]["gradients"]
        print(f"{step}\n{nonfinite.diagnosis(step, learner.model, gradients, batches)}")
    print(_first_bad(outputs))
    print(_compared(found, met))
    return bool(found == met)


def _watched(model: nn.Module) -> list[tuple[str, bool]]:
    """What the submodules' outputs come to, in the order they are computed: name, and whether all numbers are finite."""
    outputs: list[tuple[str, bool]] = []
    for name, module in model.named_modules():

        def watch(module: Any, inputs: Any, output: Any, name: str = name) -> None:
            found = [
                bool(tensor.isfinite().all())
                for tensor in nonfinite.tensors_in(output)
                if tensor.is_floating_point()
            ]
            outputs.append((name or type(module).__name__, all(found)))

        module.register_forward_hook(watch)
    return outputs


def _first_bad(outputs: list[tuple[str, bool]]) -> str:
    bad = [name for name, is_finite in outputs if not is_finite]
    return f"first output of nan or inf: {bad[0]}" if bad else "every module's output is finite"


def _compared(found: dict[str, Any], met: dict[str, Any]) -> str:
    if found == met:
        return "the same gradients as in the run, bit for bit"
    differing = [name for name in met["norms"] if met["norms"][name] != found["norms"].get(name)]
    return (
        f"not the gradients that the run met (loss {found['loss']}, was {met['loss']}; norms differ at "
        f"{', '.join(differing) or 'none'}): data, code, versions or hardware are not the same"
    )


def main() -> int:
    """What `python scripts/replay.py` does; the exit code."""
    parser = argparse.ArgumentParser(
        description="Run the step again that ended a run because it was not finite."
    )
    parser.add_argument("folder", type=Path, help="<run folder>/nonfinite/update-<number>")
    folder = parser.parse_args().folder.absolute()
    try:
        return EXIT_SAME if replay(folder) else EXIT_DIFFERENT
    except errors.AndironError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE

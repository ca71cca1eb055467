"""Writes a model to its own folder after reading it back and comparing it on real inputs."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors, inference, serialization
from andiron.data import RawBatch, structures
from andiron.data.dataset import Batcher
from andiron.data.splitting.described import Described
from andiron.disk import files
from andiron.plain import wings
from andiron.protocols import FromLatents
from andiron.shell.run import lab_options
from andiron.tasks import LanguageModel
from andiron.tasks.criterion import Supervised
from andiron.wings.trained.exports import programs
from andiron.wings.trained.exports.programs import Program

README = "README.md"  # the model card
BATCH_SIZES = (1, 5)  # compared; programs are traced with TRACED
TRACED = 2
WEIGHTS = ("safetensors", "adapter")  # no programs, whose input is one tensor
# of the largest output; float32 has 6e-8, and sums of 1,000 terms in another order lose 1e-5
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Agreement:
    """The largest difference of any output, and the largest expected output."""

    batch_sizes: tuple[int, ...]
    largest_difference: float
    largest_output: float

    def __str__(self) -> str:
        sizes = " and ".join(map(str, self.batch_sizes))
        return (
            f"largest difference {self.largest_difference:.2g}, of outputs up to "
            f"{self.largest_output:.3g} (batches of {sizes})"
        )


class Preprocessed(nn.Module):
    """`model` applied to inputs as the data set stores them, by the batcher of the run."""

    def __init__(self, batcher: Batcher, model: nn.Module):
        super().__init__()
        self.batcher, self.model = batcher, model

    def forward(self, inputs: Tensor) -> Tensor:
        raw = RawBatch(inputs, inputs)  # without targets
        return self.model(self.batcher(raw, inputs.device).inputs)


def export(
    model: nn.Module,
    described: Described,
    stored: object,
    describe: Callable[..., str] | None,
    *,
    kind: str,
    path: Path,
    with_preprocessing: bool,
) -> Agreement:
    """Writes `model` to a new folder, as the file `path` of this `kind`.

    `describe` gives the text of a model card beside it. The models are compared on `stored`, raw
    samples for the batcher.
    Raises: DataError if the model cannot be exported, or the export's outputs differ;
    RunFolderError if it cannot be written. No folder is left then.
    """
    raw, inputs = _inputs(model, described, stored, kind)
    exported_inputs, module = inputs, model
    if with_preprocessing:
        _check_preprocessing(model, kind)
        exported_inputs, module = raw, Preprocessed(described.batcher, model).eval()
    axes = _axes(model, described)
    expected = _outputs(model, _batches(inputs, axes))
    if kind != "adapter" and (adapters := wings.optional(f"{wings.LAB}.adapters")):
        adapters.merge(model)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, path.name)
            program = _write_program(kind, module, exported_inputs, axes, file)
            with inference.valid(model):
                agreement = measured(program, _batches(exported_inputs, axes), expected, path.name)
            contents: dict[str, files.Pieces] = {
                file.name: files.chunks(file) for file in sorted(Path(folder).iterdir())
            }
            if describe is not None:
                text = describe(
                    path.name, agreement, exported_inputs, expected[0],
                    axes={axis: title for axis, (title, _) in axes.items()},
                    is_stored=with_preprocessing,
                )  # fmt: skip
                contents[README] = [text.encode()]
            files.write_folder(path.parent.absolute(), contents)
    except OSError as error:
        raise errors.RunFolderError(f"{path.parent}: cannot be written ({error})") from error
    return agreement


def _inputs(model: nn.Module, described: Described, stored: object, kind: str) -> tuple[Any, Any]:
    """The stored inputs, and the inputs of the model; both latents for a generator.

    Both are the batch where the model takes no single tensor, and only its weights are written.
    """
    if isinstance(model, FromLatents):
        latents = model.generator_inputs(max(BATCH_SIZES))
        return latents, latents
    name = getattr(model, "only_input", "inputs")  # of `Forward`, or a task of one's own
    batch = described.batcher(stored, torch.device("cpu"))
    raw, inputs = ((structures.fields(side) or {}).get(str(name)) for side in (stored, batch))
    if not isinstance(raw, Tensor) or not isinstance(inputs, Tensor):
        if kind in WEIGHTS:
            return batch, batch
        raise errors.DataError(
            f"the batches of {described.name} have no tensor {name or 'alone in task.inputs'}; "
            "only models of one tensor are exported (a new run names its field with "
            "task.inputs=[FIELD], a task of your own as `only_input`); --format safetensors writes "
            "the weights of any"
        )
    return raw, inputs


def _check_preprocessing(model: nn.Module, kind: str) -> None:
    """Raises: DataError for weights alone, and for a generator."""
    if kind in WEIGHTS:
        problem = f"{kind} has weights and no program; choose --format torch or onnx"
    elif isinstance(model, FromLatents):
        problem = "a generator's inputs are latents, which are not preprocessed"
    else:
        return
    raise errors.DataError(f"--preprocessing: {problem}, or leave it out")


def _outputs(model: nn.Module, batches: list[Any]) -> list[Tensor]:
    """Raises: DataError if the model rejects a batch, or returns anything but a tensor."""
    try:
        with inference.valid(model):
            outputs = [model(batch) for batch in batches]
    except (RuntimeError, ValueError, IndexError) as error:
        raise errors.DataError(
            f"{type(model).__name__} does not take the inputs of the data, "
            f"{[*getattr(batches[0], 'shape', batches[0])]} "
            f"({errors.first_line(error)})"
        ) from error
    for output in outputs:
        if not isinstance(output, Tensor):
            raise errors.DataError(
                f"{type(model).__name__} gives {type(output).__name__}; only models whose output "
                "is one tensor are exported"
            )
    return outputs


def _batches(inputs: object, axes: programs.Axes) -> list[Any]:
    """A batch of each size; also one of half the length if time may vary."""
    if not isinstance(inputs, Tensor):
        return [inputs]
    batches = [inputs[:size] for size in dict.fromkeys(min(s, len(inputs)) for s in BATCH_SIZES)]
    return [*batches, inputs[:, : inputs.shape[1] // 2]] if 1 in axes else batches


def _axes(model: nn.Module, described: Described) -> programs.Axes:
    """The batch axis, and for language models time up to the context length."""
    context_length = described.facts.get("context_length")
    is_text = isinstance(model, LanguageModel)
    if is_text and isinstance(context_length, int) and context_length > 1:
        return {0: ("batch", None), 1: ("time", context_length)}
    return {0: ("batch", None)}


def _write_program(
    kind: str, module: nn.Module, inputs: Any, axes: programs.Axes, path: Path
) -> Program:
    """Writes the model; returns a function that runs the written program."""
    if kind == "safetensors":
        return _write_weights(module, path)
    if kind == "adapter":
        return lab_options.module("adapters.adapter_files", "--format adapter").write(module, path)
    write = programs.torch_program if kind == "torch" else programs.onnx_program
    example = torch.cat([inputs] * TRACED)[:TRACED]  # there may be one sample only
    return write(module, example, axes, path)


def _write_weights(model: nn.Module, path: Path) -> Program:
    """Writes the network's weights; returns the model with the weights read back."""
    network = model.network if isinstance(model, Supervised) else model
    serialization.save_tensors(path, network.state_dict())
    with torch.no_grad():
        for tensor in network.state_dict().values():
            tensor.zero_()
    network.load_state_dict(serialization.load_tensors(path))
    return model


def measured(
    exported: Program, batches: Sequence[object], expected: Sequence[Tensor], name: str
) -> Agreement:
    """The agreement over batches of inputs with their expected outputs.

    Raises: DataError, with the export's `name`, if a shape differs, or a value by more than the
    tolerance.
    """
    distances = []
    for inputs, reference in zip(batches, expected, strict=True):
        outputs = exported(inputs)
        if outputs.shape != reference.shape:
            raise errors.DataError(
                f"{name}: its outputs are {[*outputs.shape]}, where the model gives "
                f"{[*reference.shape]}; nothing was written"
            )
        distances.append((outputs.double() - reference.double()).abs().max())
    # NaN wins over numbers, unlike in Python's max
    difference = float(torch.stack(distances).max())
    largest = max(float(reference.abs().max()) for reference in expected)
    agreement = Agreement(tuple(dict.fromkeys(map(structures.size, batches))), difference, largest)
    if not difference <= TOLERANCE * largest:  # or NaN
        raise errors.DataError(
            f"{name}: {agreement}, more than {TOLERANCE:g} of them; nothing was written: of a "
            "network that draws random numbers, export one that takes them as inputs"
        )
    return agreement

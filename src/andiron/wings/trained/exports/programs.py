"""A model as a program without its code, for torch.export or ONNX."""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from andiron import errors

INPUTS, OUTPUTS = "inputs", "outputs"
LARGEST_ONNX_BYTES = 2**30  # a protobuf file is limited to 2 GiB: larger weights get their own
Program = Callable[[Any], Tensor]
Axes = Mapping[int, tuple[str, int | None]]  # name and largest size of each dynamic axis


def torch_program(model: nn.Module, inputs: Tensor, axes: Axes, path: Path) -> Program:
    """Writes a torch.export program to `path`; returns the program read from there.

    `inputs` are an example with at least two entries on each of the `axes`, which are dynamic.
    Raises: DataError if the model cannot be exported.
    """
    with _explain_failures(model), _without_output(), torch.no_grad():
        torch.export.save(_export(model, inputs, axes), path)
        program = torch.export.load(path).module()
    return program


def onnx_program(model: nn.Module, inputs: Tensor, axes: Axes, path: Path) -> Program:
    """Writes an ONNX program to `path`; returns a function that runs it in ONNX Runtime.

    As `torch_program`; its input and output are named `inputs` and `outputs`.
    """
    import onnxruntime

    weights = sum(tensor.nbytes for tensor in model.state_dict().values())
    with _explain_failures(model), _without_output(), torch.no_grad():
        program: Any = torch.onnx.export(
            _export(model, inputs, axes),
            (inputs,),
            dynamic_shapes=({axis: name for axis, (name, _) in axes.items()},),
            input_names=[INPUTS],
            output_names=[OUTPUTS],
            dynamo=True,
            verbose=False,
        )
        program.save(path, external_data=weights > LARGEST_ONNX_BYTES)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda batch: torch.from_numpy(session.run([OUTPUTS], {INPUTS: batch.numpy()})[0])


def _export(model: nn.Module, inputs: Tensor, axes: Axes) -> torch.export.ExportedProgram:
    dims = {axis: torch.export.Dim(name, max=largest) for axis, (name, largest) in axes.items()}
    export = partial(torch.export.export, model, (inputs,), dynamic_shapes=(dims,))
    try:
        program: torch.export.ExportedProgram = export()
    except RuntimeError:
        program = export(strict=True)  # follows len(x) and int(x.shape[0]), but not all code
    for node in program.graph.nodes:  # else the program has paths of this machine's files
        node.meta.pop("stack_trace", None)
    return program


@contextlib.contextmanager
def _explain_failures(model: nn.Module) -> Iterator[None]:
    """Turns exceptions of torch and ONNX Runtime, except OSError, into DataError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise errors.DataError(
            f"{type(model).__name__} cannot be exported as a program "
            f"({errors.first_line(error)}); its forward should not depend on values of tensors, "
            "nor on the number of samples or tokens: x.shape[0], not len(x), in shapes"
        ) from error


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    """Hides torch's warnings, log and progress, which the user cannot act on."""
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)

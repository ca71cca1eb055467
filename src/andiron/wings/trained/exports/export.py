"""Exports the model of a run to its own folder, and checks it on the run's data."""

import argparse
import dataclasses
import importlib.util
import logging
import os
from pathlib import Path

from andiron import errors
from andiron.plain import readable, wings
from andiron.shell.cli import answers
from andiron.wings.commands.answer_schemas import TEXT, closed
from andiron.wings.commands.declaration import Command
from andiron.wings.trained import named_output, run_arguments

FORMATS = {
    "safetensors": "model.safetensors", "torch": "model.pt2", "onnx": "model.onnx",
    "adapter": "adapter_model.safetensors",
}  # fmt: skip
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
log = logging.getLogger("andiron")
SAMPLES = 5  # of the test set, on which the export is compared


@errors.exits_refused()
def export(options: argparse.Namespace) -> None:
    """Writes the export and prints how far its outputs are from the model's.

    Raises: AndironError if the run cannot be loaded, or its model cannot be exported.
    """
    output, kind = options.output.absolute(), options.format
    named_output.check_folder(output)
    _check_target(output, kind)
    run = run_arguments.loaded(options)
    # torch, only once the run is found
    from andiron.shell.run import lab_options, run_record
    from andiron.wings.trained.exports import checked_export

    if (model_card := wings.optional(f"{wings.LAB}.views.model_card")) is None:
        log.warning("no README.md is written: %s", wings.missing_lab("the model card"))
    if kind == "adapter":
        groups = run_record.read_json(run.folder, run.folder.param_groups)
        files = lab_options.module("adapters.adapter_files", "--format adapter")
        files.mark_trained(run.model, groups)
    test = run.data.test
    stored = test.__getitems__(range(min(SAMPLES, len(test))))
    path = output / FORMATS[kind]
    agreement = checked_export.export(
        run.model, run.preprocessing, stored, model_card and model_card.of_run(run).text,
        kind=kind, path=path, with_preprocessing=options.preprocessing,
    )  # fmt: skip
    head = {"run": str(run.folder.path), "weights": run.weights, "format": kind}
    if not answers.give({**head, "path": str(path), **dataclasses.asdict(agreement)}):
        print(readable.printable(f"{path}: {agreement}"))


def _check_target(output: Path, kind: str) -> None:
    """Checks that `output` can take an export of this `kind`.

    Raises: RunFolderError for a folder with files; DataError for missing packages.
    """
    if os.path.isdir(output) and (entries := sorted(path.name for path in output.iterdir())):
        problem = f"holds {readable.joined(entries, 1)}"
        raise errors.RunFolderError(f"{output}: {problem}; give --output another folder")
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if kind == "onnx" and missing:
        problem = f"--format onnx needs {', '.join(missing)}"
        raise errors.DataError(f"{problem}: pip install andiron[onnx]")


def _parser() -> argparse.ArgumentParser:
    parser = run_arguments.parser(
        "Export the model of a run, and compare it with the original on the run's data."
    )
    parser.add_argument(
        "--format",
        choices=list(FORMATS),
        required=True,
        help="safetensors (weights only), torch (a torch.export program), onnx, or adapter (LoRA "
        "and what trained beside it, as peft loads them)",
    )
    parser.add_argument("--output", type=Path, required=True, help="a new or empty folder")
    parser.add_argument(
        "--preprocessing",
        action="store_true",
        help="include preprocessing: the program takes stored inputs, such as pixel bytes",
    )
    parser.set_defaults(device="cpu")
    return parser


ANSWERS = [{
    **closed({"run": TEXT, "weights": TEXT, "format": {"enum": [*FORMATS]}, "path": TEXT}),
    "additionalProperties": True,
}]
main = Command(
    _parser, ANSWERS, export, page="export.md", interrupted="interrupted; nothing was written"
)

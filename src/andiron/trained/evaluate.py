"""A trained run measured again: all metrics, results by class, and the worst errors."""

import argparse
import dataclasses
import json
import logging
import re
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.cli import command_line, named_output, process
from andiron.comparison.text_table import measured, table
from andiron.disk import png
from andiron.plain.readable import ending, number
from andiron.run import named_folder
from andiron.trained import run_arguments

MOST_CLASSES = 20  # printed; --json has all of them
MOST_LETTERS = 24  # of a cell, so that a table fits 80 columns
log = logging.getLogger("andiron")


def evaluate(options: argparse.Namespace) -> None:
    """Prints what the run is measured as, and writes pictures of the worst errors if asked to.

    Raises: AndironError if the run cannot be loaded, or not be measured on the data.
    """
    part, overrides = _settings(options)
    folder = named_folder.found(options.run)  # before torch is imported
    if options.pictures is not None:
        named_output.check_folder(options.pictures)
    from andiron.run import provenance
    from andiron.trained import evaluating, other_data

    run = run_arguments.loaded(folder, options)
    if overrides:
        splits = other_data.splits(run.config, overrides, run.preprocessing)
    else:
        splits = run.data
        if splits.fingerprint != provenance.read(folder).get("data", {}).get("sha256"):
            log.warning("data %s: changed since the run was trained", splits.name)
    found = evaluating.evaluate(run, splits, part, worst=options.worst)
    head = {"run": str(folder.path), "weights": run.weights, "data": splits.name}
    if options.json:
        print(json.dumps(head | _plain(found)))
    else:
        _show(head, found)
    if options.pictures is not None:
        _write_pictures(options.pictures, found)


def _settings(options: argparse.Namespace) -> tuple[str, list[str]]:
    """The part to measure and the overrides of the data; `weights=` is noted in the options.

    Raises: ConfigError with all settings that are none of these.
    """
    part, overrides, problems = "test", list[str](), list[str]()
    for text in options.settings:
        name, equals, value = text.partition("=")
        if name.lstrip("+").partition(".")[0] == "data" and equals:
            overrides.append(text)
        elif name == "split" and equals:
            part = value
        elif name == "weights" and equals:
            options.weights = value
        else:
            hint = errors.nearest(name, ("split", "weights", "data"))
            problems.append(f"{text}: should be split=..., weights=... or data...=...{hint}")
    if problems:
        raise errors.ConfigError(problems)
    return part, overrides


def _plain(found: Any) -> dict[str, Any]:
    """The evaluation as JSON has it."""
    return {
        "split": found.part,
        "samples": found.samples,
        "metrics": found.values,
        "classes": [
            {key: value for key, value in dataclasses.asdict(each).items() if key != "is_present"}
            for each in found.classes
        ],
        "worst": [
            {"sample": each.index, "name": each.prediction.name, "true": each.true,
             "predicted": _predicted(each.prediction), "loss": each.loss,
             "probability": each.prediction.probability}
            for each in found.worst
        ],
        "texts": dict(found.texts),
    }  # fmt: skip


def _predicted(prediction: Any) -> str:
    values = ", ".join(f"{value:.6g}" for value in prediction.values.values())
    return prediction.label or ";".join(prediction.labels) or values


def _show(head: dict[str, str], found: Any) -> None:
    samples = f"{found.part} of {head['data']}, {found.samples:,} samples"
    print(errors.printable(f"{head['run']}, weights {head['weights']}: {samples}\n"))
    rows = [[name, number(value)] for name, value in found.values.items()]
    print(table(["metric", "value"], rows), end="\n\n")
    if found.classes:
        present = [each for each in found.classes if each.is_present]
        shown = sorted(present, key=lambda each: each.f1)[:MOST_CLASSES]
        is_cut = len(shown) < len(found.classes)
        title = f", the {len(shown)} lowest F1 of {len(found.classes)}" if is_cut else ""
        rows = [
            [ending(each.name, MOST_LETTERS), *(f"{ratio:.4f}" for ratio in each.ratios),
             each.support]
            for each in (shown if is_cut else found.classes)
        ]  # fmt: skip
        headers = [f"class{title}", "precision", "recall", "F1", "support"]
        print(table(headers, rows), end="\n\n")
    if found.worst:
        headers = ["worst errors", "true", "predicted", "probability", "loss"]
        print(table(headers, [_worst_row(each) for each in found.worst]), end="\n\n")
    for name, text in found.texts.items():
        print(errors.printable(f"{name}\n{text}\n"))


def _worst_row(error: Any) -> list[str | None]:
    prediction = error.prediction
    texts = prediction.name, error.true, _predicted(prediction)
    names = [ending(text, MOST_LETTERS) for text in texts]
    return [*names, measured(prediction.probability), number(error.loss)]


def _write_pictures(folder: Path, found: Any) -> None:
    """The worst errors and the pictures of metrics as PNG files.

    Raises: OutputError if they cannot be written; DataError if there is no picture.
    """
    named = {
        f"worst-{place}-sample-{each.index}-true-{each.true}-"
        f"predicted-{_predicted(each.prediction)}": each.picture
        for place, each in enumerate(found.worst, 1)
        if each.picture is not None
    }
    named |= found.pictures
    if not named:
        raise errors.DataError("--pictures: the data have no images of 1 or 3 channels; omit it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot be written ({error.strerror}); name another folder"
        raise errors.OutputError(f"{folder}: {why}") from error
    for name, picture in named.items():
        file = f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:120]}.png"
        named_output.write(folder / file, [png.of_pixels(picture)])


@process.command
def main() -> int:
    """Runs `python scripts/evaluate.py`; returns the exit code."""
    parser = run_arguments.parser(
        "Evaluate a trained run: all metrics, results per class, the worst errors."
    )
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="setting",
        help="split=test, train, valid or all; weights=best; for other data data=mnist or "
        "data.path=..., as for training",
    )
    worst = "number of worst errors to show (default: 10)"
    parser.add_argument("--worst", type=command_line.count, default=10, metavar="N", help=worst)
    pictures = "write the worst errors and the pictures of metrics to this folder, as PNG files"
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help=pictures)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    run_arguments.add_weights(parser)
    run_arguments.add_device(parser)
    command_line.add_trust(parser)
    return command_line.ended(evaluate, parser.parse_args())

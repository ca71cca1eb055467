"""Evaluates a trained run: all metrics, results by class, and the worst errors."""

import argparse
import dataclasses
import logging
import re
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import png
from andiron.plain.readable import number, printable
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, TEXT, VALUE, by_name, closed, list_of
from andiron.wings.commands.declaration import Command
from andiron.wings.runs.text_table import measured, table
from andiron.wings.trained import named_output, run_arguments

MOST_CLASSES = 20  # printed; --json has all of them
log = logging.getLogger("andiron")


@errors.exits_refused()
@errors.preventing("nothing was evaluated")
def evaluate(options: argparse.Namespace) -> None:
    """Prints the run's evaluation, and writes pictures of the worst errors with --pictures.

    Raises: AndironError if the run cannot be loaded, or cannot be evaluated on the data.
    """
    part, overrides = _settings(options)
    if options.pictures is not None:
        named_output.check_folder(options.pictures)
    run = run_arguments.loaded(options)
    from andiron.shell.run import provenance  # torch is imported only once the run is found
    from andiron.wings.trained import evaluating, other_data

    if overrides:
        splits = other_data.splits(run.config, overrides, run.preprocessing, part)
    else:
        splits = run.data
        if splits.fingerprint != provenance.read(run.folder)["data"]["sha256"]:
            log.warning("data %s: changed since the run was trained", splits.name)
    evaluation = evaluating.evaluate(run, splits, part, worst=options.worst)
    head = {"run": str(run.folder.path), "weights": run.weights, "data": splits.name}
    if not answers.give(head | _plain(evaluation)):
        _show(head, evaluation)
    if options.pictures is not None:
        _write_pictures(options.pictures, evaluation)


def _settings(options: argparse.Namespace) -> tuple[str, list[str]]:
    """The part to evaluate and the overrides of the data; sets `options.weights` for `weights=`.

    Raises: ConfigError listing all invalid settings.
    """
    part, overrides, problems = "test", list[str](), list[str]()
    for text in options.settings:
        name, equals, value = text.partition("=")
        match name.lstrip("+").partition(".")[0] if equals else "":
            case "data":
                overrides.append(text)
            case "split":
                part = value
            case "weights":
                options.weights = value
            case _:
                hint = errors.nearest(name, ("split", "weights", "data"))
                problems.append(f"{text}: should be split=..., weights=... or data...=...{hint}")
    if problems:
        raise errors.ConfigError(problems)
    return part, overrides


def _plain(evaluation: Any) -> dict[str, Any]:
    """The evaluation as plain values for JSON."""
    return {
        "split": evaluation.part,
        "samples": evaluation.samples,
        "metrics": evaluation.values,
        "classes": [
            {key: value for key, value in dataclasses.asdict(scores).items() if key != "is_present"}
            for scores in evaluation.classes
        ],
        "worst": [
            {"sample": error.index, "name": error.prediction.name, "true": error.true,
             "predicted": error.prediction.text, "loss": error.loss,
             "probability": error.prediction.probability}
            for error in evaluation.worst
        ],
        "texts": dict(evaluation.texts),
    }  # fmt: skip


def _show(head: dict[str, str], evaluation: Any) -> None:
    print(printable(
        f"{head['run']}, weights {head['weights']}: {evaluation.part} of {head['data']}, "
        f"{evaluation.samples:,} samples\n"
    ))
    rows = [[name, number(value)] for name, value in evaluation.values.items()]
    print(table(["metric", "value"], rows), end="\n\n")
    if evaluation.classes:
        present = [scores for scores in evaluation.classes if scores.is_present]
        lowest = sorted(present, key=lambda scores: scores.f1)[:MOST_CLASSES]
        is_cut = len(lowest) < len(evaluation.classes)
        title = f", the {len(lowest)} lowest F1 of {len(evaluation.classes)}" if is_cut else ""
        rows = [
            [scores.name, *(f"{ratio:.4f}" for ratio in scores.ratios), scores.support]
            for scores in (lowest if is_cut else evaluation.classes)
        ]  # fmt: skip
        headers = [f"class{title}", "precision", "recall", "F1", "support"]
        print(table(headers, rows), end="\n\n")
    if evaluation.worst:
        headers = ["worst errors", "true", "predicted", "probability", "loss"]
        rows = [
            [error.prediction.name, error.true, error.prediction.text,
             measured(error.prediction.probability), number(error.loss)]
            for error in evaluation.worst
        ]
        print(table(headers, rows), end="\n\n")
    for name, text in evaluation.texts.items():
        print(printable(f"{name}\n{text}\n"))


def _write_pictures(folder: Path, evaluation: Any) -> None:
    """The worst errors and the pictures of metrics as PNG files.

    Raises: OutputError if they cannot be written; DataError if there is no picture.
    """
    from andiron.writers.fanout import AcceptedNames  # imports torch

    file_name = AcceptedNames("--pictures", r"[^A-Za-z0-9_-]|\A\Z", 120)
    pictures = {file_name[name]: picture for name, picture in evaluation.pictures.items()}
    for place, error in enumerate(evaluation.worst, 1):
        name = f"worst-{place}-{error.prediction.name}-true-{error.true}"
        predicted = error.prediction.text and f"-predicted-{error.prediction.text}"
        if error.picture is not None:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", name + predicted)[:120]
            pictures[name] = error.picture
    if not pictures:
        raise errors.DataError("--pictures: the data have no images of 1 or 3 channels; omit it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.OutputError(
            f"{folder}: cannot be written ({error.strerror}); name another folder"
        ) from error
    for name, picture in pictures.items():
        named_output.write(folder / f"{name}.png", [png.of_pixels(picture)])


def _parser() -> argparse.ArgumentParser:
    parser = run_arguments.parser(
        "Evaluate a trained run: all metrics, results per class, the worst errors."
    )
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="setting",
        help="split=test, train, valid, all or a further validation set; weights=best; for other "
        "data data=mnist or data.path=..., as for training",
    )
    worst = "number of worst errors to show (default: 10)"
    parser.add_argument("--worst", type=declaration.count, default=10, metavar="N", help=worst)
    pictures = "write the worst errors and the pictures of metrics to this folder, as PNG files"
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help=pictures)
    run_arguments.add_device(parser)
    return parser


ANSWERS = [closed({
    "run": TEXT, "weights": TEXT, "data": TEXT, "split": TEXT, "samples": COUNT,
    "metrics": by_name(VALUE), "classes": list_of(by_name()), "worst": list_of(by_name()),
    "texts": by_name(TEXT),
})]  # fmt: skip
main = Command(_parser, ANSWERS, evaluate, page="using_a_run.md")

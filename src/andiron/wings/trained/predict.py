"""Predicts with a trained run for pictures, table rows or texts, as CSV or JSON lines."""

import argparse
import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain import readable, wings
from andiron.plain.plain_values import strict_json
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import ANY, TEXT, VALUE, by_name, closed, list_of
from andiron.wings.commands.declaration import Command
from andiron.wings.trained import named_output, run_arguments
from andiron.wings.trained.named_output import STDIN

# the last four are full-width, as in Japanese; numbers are not formulas
FORMULA = re.compile(r"(?![+-]?[\d.]+(e[+-]?\d+)?$)\s*[=+\-@\t\r\uff0b\uff0d\uff1d\uff20]")
Row = dict[str, Any]


@errors.exits_refused()
def predict(options: argparse.Namespace) -> None:
    """Writes the predictions, then reports unreadable inputs.

    Raises: AndironError if the run cannot be loaded, or an input is unsuitable.
    """
    if options.output is not None:
        named_output.check(options.output, options.inputs)
    run = run_arguments.loaded(options)
    samples = run.samples(list(_inputs(options.inputs, run)), options.keep)
    rows = _rows(options, run, samples)
    # ASCII: no control characters of a terminal
    as_json = (strict_json(row) + "\n" for row in rows)
    lines = as_json if answers.are_asked() else _csv_lines(rows, inert=options.spreadsheet)
    if options.output is None:
        for line in lines:
            answers.write(line)
    else:
        read = [*options.inputs, *samples.names]  # with the pictures in folders
        named_output.write(options.output, (line.encode() for line in lines), read)
        answers.give({"output": str(options.output)})
    if samples.problems:
        raise errors.DataError(*samples.problems)


def _rows(options: argparse.Namespace, run: Any, samples: Any) -> Iterator[Row]:
    """The row of each prediction, as soon as it is made, and the file of its mask with --masks.

    Raises: OutputError for masks that cannot be written.
    """
    write_mask: Any = None
    if options.masks is not None:
        masks = wings.required("masks.written_masks", "--masks", errors.AndironError)
        write_mask = masks.writer(options.masks, samples.names, run.preprocessing.facts)
    predictions = run.predictions(samples, options.batch_size)
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        console, total = Console(stderr=True), len(samples.names)
        predictions = track(predictions, "", total, console=console, transient=True)
    return (
        _row(prediction, options.top, as_json=answers.are_asked())
        | (write_mask(prediction) if write_mask else {})
        for prediction in predictions
    )


def _inputs(arguments: list[str], run: Any) -> Iterator[Any]:
    """The inputs for `Run.samples`: texts, the content of a table, or paths of files."""
    from andiron.data.kinds import recorded_kind

    kind = recorded_kind.of(run.preprocessing)
    for argument in arguments:
        if argument == STDIN:
            yield from kind.read_stdin()
        else:
            is_file = kind.takes_texts and Path(argument).is_file()
            yield Path(argument) if is_file else argument


def _row(prediction: Any, top: int, *, as_json: bool) -> Row:
    """A prediction as an output row: nested values for JSON, a column for each value for CSV."""
    head, fields = {"input": prediction.name}, _fields(prediction, top, as_json=as_json)
    if as_json:
        return head | ({"kept": dict(prediction.kept)} if prediction.kept else {}) | fields
    taken = {*head, *fields}
    kept = {
        f"input.{name}" if name in taken else name: text for name, text in prediction.kept.items()
    }
    return head | kept | fields


def _fields(prediction: Any, top: int, *, as_json: bool) -> Row:
    if prediction.label is not None:
        likeliest = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[:top]
        row = {"label": prediction.label, "probability": prediction.probability}
        if as_json:
            return row | ({"probabilities": dict(likeliest)} if top > 1 else {})
        for place, (name, probability) in enumerate(likeliest[1:], 2):
            row |= {f"label_{place}": name, f"probability_{place}": probability}
        return row
    if prediction.probabilities:
        probabilities = dict(prediction.probabilities)
        labels = list(prediction.labels)
        return ({"labels": labels, "probabilities": probabilities} if as_json else
                {"labels": ";".join(labels), **probabilities})  # fmt: skip
    if prediction.values:
        return {"values": dict(prediction.values)} if as_json else dict(prediction.values)
    values = prediction.output.flatten().tolist()
    return ({"output": prediction.output.tolist()} if as_json else
            {f"output_{number}": value for number, value in enumerate(values)})  # fmt: skip


def _csv_lines(rows: Iterable[Row], *, inert: bool) -> Iterator[str]:
    """A line for each row, as soon as it is predicted; the first has the header before it."""
    for number, row in enumerate(rows):
        lines = io.StringIO()
        writer = csv.writer(
            lines,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if inert else csv.QUOTE_MINIMAL,
        )
        if number == 0:
            writer.writerow(_cell(name, inert) for name in row)
        writer.writerow(_cell(value, inert) for value in row.values())
        yield lines.getvalue()


def _cell(cell: object, inert: bool) -> Any:
    """A cell; if `inert`, spreadsheets do not read its text as a formula."""
    if not isinstance(cell, str):
        return cell
    text = readable.printable(cell)
    return f"'{text}" if inert and FORMULA.match(cell) else text


def _parser() -> argparse.ArgumentParser:
    parser = run_arguments.parser("Predict with a trained run from raw inputs.")
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="input",
        help="pictures, folders of pictures, CSV files, or texts (an existing file is read); "
        "- reads stdin: picture paths, one per line; the rows of a CSV file; or one text",
    )
    output = "output file (default: standard output)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output)
    inert = "in CSV, quote texts, and put ' before texts that a spreadsheet takes for formulas"
    parser.add_argument("--spreadsheet", action="store_true", help=inert)
    keep = "column of a table to print beside its predictions, such as an id; may be repeated"
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMN", help=keep)
    top = "print the N most likely classes of each input (default: 1)"
    parser.add_argument("--top", type=declaration.count, default=1, metavar="N", help=top)
    size = "inputs per batch (default: the validation batch size, for identical bits)"
    parser.add_argument("--batch-size", type=declaration.count, metavar="N", help=size)
    masks = "write the mask of each picture to this folder, as a PNG file of its name"
    parser.add_argument("--masks", type=Path, metavar="FOLDER", help=masks)
    run_arguments.add_device(parser)
    return parser


ANSWERS = [
    closed({
        "input": TEXT, "kept": by_name(), "label": TEXT, "probability": VALUE,
        "labels": list_of(TEXT), "probabilities": by_name(VALUE), "values": by_name(VALUE),
        "output": ANY, "mask": TEXT,
    }, "mask", "kept", "label", "probability", "labels", "probabilities", "values", "output"),
    closed({"output": TEXT}),
]  # fmt: skip
main = Command(_parser, ANSWERS, predict, page="using_a_run.md")

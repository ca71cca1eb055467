"""Tells which samples an update saw, which are in a spike of the loss, and what became of one."""

import argparse
from collections.abc import Iterator
from typing import Any

from andiron import errors
from andiron.plain.readable import number, printable
from andiron.shell.cli import answers, command_line
from andiron.shell.cli.answer_schemas import (
    COUNT, NUMBER, TEXT, VALUE, by_name, closed, list_of, or_null,
)  # fmt: skip
from andiron.shell.cli.process import Command
from andiron.shell.run import named_folder
from andiron.wings.runs.text_table import table

EXIT_UNUSABLE = 2
QUESTIONS: dict[str, tuple[str, Any, str]] = {  # method, type and help of each option
    "--update": ("of_update", command_line.count, "the samples of update N, the worst first"),
    "--spikes": ("spikes", command_line.count, "the N largest jumps of loss and gradient norm"),
    "--hardest": ("hardest", command_line.count, "the N samples with the highest mean loss"),
    "--index": ("of_sample", int, "each update that saw sample N of the training data, from 0"),
    "--name": ("of_sample", str, "the same by the sample's name, such as its file"),
}


def _parser() -> argparse.ArgumentParser:
    parser = answers.Parser(description=__doc__)
    parser.add_argument("run", help="a run folder, or latest")
    asked = parser.add_mutually_exclusive_group(required=True)
    for flag, (_, kind, about) in QUESTIONS.items():
        asked.add_argument(flag, type=kind, metavar="N", help=about)
    about = "make updates again from the start of the run"
    parser.add_argument("--from-start", action="store_true", help=about)
    command_line.add_trust(parser)
    return parser


@errors.exits_refused()
def _run(options: argparse.Namespace) -> int:
    folder = named_folder.run_folder_of(options.run)
    from andiron_lab.ask.sample_questions import SampleQuestions  # torch: after the run is found

    trusted = command_line.trusted(options)
    ask = SampleQuestions(folder, trusted, from_start=options.from_start)
    with ask.run.together():
        for flag, (method, *_) in QUESTIONS.items():
            if (value := getattr(options, flag[2:])) is not None:
                answer = getattr(ask, method)(value)
        if not answers.give(answer):
            print(printable("\n\n".join(_paragraphs(answer))))
            if not answer["compared"]:
                print("nothing was compared: the run logged and saved nothing there")
    return bool(answer["differences"])


def _paragraphs(answer: dict[str, Any]) -> Iterator[str]:
    """The values on one line; then each list of rows, as a table unless they have rows again."""
    rows_of = {name: rows for name, rows in answer.items() if str(rows)[:2] == "[{"}
    yield ", ".join(f"{name} {_text(answer[name])}" for name in answer if name not in rows_of)
    for rows in rows_of.values():
        if {"samples", "updates"} & {*rows[0]}:
            for row in rows:
                yield from _paragraphs(row)
        else:
            yield table([*rows[0]], [[*map(_text, row.values())] for row in rows])


def _text(value: object) -> Any:
    return number(value) if isinstance(value, float) else value


SAMPLE = closed({
    "index": COUNT, "name": TEXT, "loss": VALUE, "true": or_null(TEXT), "predicted": or_null(TEXT),
    "relative_size": VALUE, "drawn": by_name(list_of(NUMBER)), "unrecorded": list_of(TEXT),
})  # fmt: skip
UPDATES = list_of(closed({
    "update": COUNT, "epoch": COUNT, "data": TEXT, "loss": VALUE, "grad_norm": VALUE,
    "samples": list_of(SAMPLE),
}))  # fmt: skip
MADE = {"run": TEXT, "compared": COUNT, "differences": list_of(TEXT)}
ANSWERS = [
    closed({**MADE, "updates": UPDATES}),
    closed({
        **MADE,
        "spikes": list_of(closed({
            "what": TEXT, "first": COUNT, "last": COUNT, "rise": VALUE, "value": VALUE,
            "updates": UPDATES,
        })),
    }),
    closed({
        **MADE, "updates": UPDATES, "learned": list_of(COUNT), "forgotten": list_of(COUNT),
    }),
    closed({**MADE, "updates": UPDATES, "hardest": list_of(closed({
        "index": COUNT, "name": TEXT, "loss": VALUE, "times": COUNT,
    }))}),
]  # fmt: skip
main = Command(
    _parser, ANSWERS, _run, page="ask_a_run.md", failed=EXIT_UNUSABLE, joins_others=True
)

"""Tells which samples an update saw, which are in a spike of the loss, and what became of one."""

import argparse
from collections.abc import Iterator
from typing import Any

from andiron import errors
from andiron.plain.readable import joined, number, printable
from andiron.shell.cli import answers
from andiron.shell.run import named_folder
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import (
    COUNT, NUMBER, TEXT, VALUE, by_name, closed, list_of, or_null,
)  # fmt: skip
from andiron.wings.commands.declaration import Command
from andiron.wings.runs.text_table import table

EXIT_UNUSABLE = 2
EMPTY: tuple[Any, ...] = ({}, [], None)
QUESTIONS: dict[str, tuple[str, Any, str]] = {  # method, type and help of each option
    "--update": ("of_update", declaration.count, "the samples of update N, the worst first"),
    "--spikes": ("spikes", declaration.count, "the N largest jumps of loss and gradient norm"),
    "--hardest": ("hardest", declaration.count, "the N samples with the highest mean loss"),
    "--index": ("of_sample", int, "each update that saw sample N of the training data, from 0"),
    "--name": ("of_sample", str, "the same by the sample's name, such as its file"),
}


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description=__doc__)
    parser.add_argument("run", help="a run folder, or latest")
    asked = parser.add_mutually_exclusive_group(required=True)
    for flag, (_, kind, about) in QUESTIONS.items():
        asked.add_argument(flag, type=kind, metavar="N", help=about)
    about = "make updates again from the start of the run"
    parser.add_argument("--from-start", action="store_true", help=about)
    declaration.add_trust(parser)
    return parser


@errors.exits_refused()
def _run(options: argparse.Namespace) -> int:
    folder = named_folder.run_folder_of(options.run)
    from andiron_lab.ask.sample_questions import SampleQuestions  # torch: after the run is found

    trusted = declaration.trusted(options)
    ask = SampleQuestions(folder, trusted, from_start=options.from_start)
    with ask.run.together():
        for flag, (method, *_) in QUESTIONS.items():
            if (value := getattr(options, flag[2:])) is not None:
                answer = getattr(ask, method)(value)
        if not answers.give(answer):
            print(printable("\n\n".join(_paragraphs(answer))))
    return bool(answer["differences"])


def _paragraphs(answer: dict[str, Any]) -> Iterator[str]:
    """Sentences, each before its table of samples."""
    verdict = "nothing was compared: the run logged and saved nothing there"
    if answer["compared"]:
        differences = ", ".join(answer["differences"]) or "none"
        verdict = f"{answer['compared']} values and tensors compared, different: {differences}"
    yield f"{answer['run']} made again, {verdict}"
    if "learned" in answer:
        right, wrong = (joined(answer[name]) or "none" for name in ("learned", "forgotten"))
        yield f"right from update {right}, wrong again from update {wrong}"
    yield from _of_updates(answer.get("updates", []))
    for jump in answer.get("spikes", ()):
        first, last = jump["first"], jump["last"]
        place = f"update {last}" if first == last else f"updates {first} to {last}"
        value = f"{_text(jump['value'])}, by {_text(jump['rise'])} of its median before"
        yield f"{jump['what']} in {place}" + ("" if jump["value"] is None else f": rose to {value}")
        yield from _of_updates(jump["updates"])
    if "hardest" in answer:
        yield _table(answer["hardest"])


def _of_updates(updates: list[dict[str, Any]]) -> Iterator[str]:
    for update in updates:
        values = f"loss {_text(update['loss'])}, gradient norm {_text(update['grad_norm'])}"
        yield f"update {update['update']}, epoch {update['epoch']}, on {update['data']}: {values}"
        yield _table(update["samples"])


def _table(rows: list[dict[str, Any]]) -> str:
    """The rows, without columns that none has a value in."""
    first = rows[0] if rows else {}
    names = [name for name in first if any(row[name] not in EMPTY for row in rows)]
    return table(names, [[_text(row[name]) for name in names] for row in rows])


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

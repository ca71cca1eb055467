"""`andiron bisect`: where two runs, or a run and itself under other conditions, part."""

import argparse
import os
from dataclasses import asdict, replace

from andiron import errors
from andiron.plain.readable import printable
from andiron.shell.cli import answers
from andiron.shell.run import named_folder
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, FLAG, TEXT, closed, list_of, or_null
from andiron.wings.commands.declaration import Command
from andiron_lab.ask.conditions import Side
from andiron_lab.ask.parting import parted

EXIT_EQUAL, EXIT_DIFFERENT, EXIT_UNUSABLE = 0, 1, 2


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(description="Find the first update and tensor where runs differ.")
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="two runs; or one, and other options: compile=true")
    add("--threads", type=declaration.count, help="the number of threads that make the run again")
    add("--checkout", metavar="FOLDER", help="make the run again with the code in this folder")
    add("--commits", metavar="GOOD..BAD", help="find the commit, in the repository around here")
    add("--tolerance", type=float, help="the relative distance up to which tensors are equal")
    add(
        "--updates", nargs=2, type=declaration.count, metavar=("FIRST", "LAST"),
        help="the only ones to make again",
    )  # fmt: skip
    add("--from-start", action="store_true", help="make all again, from the start of the runs")
    declaration.add_trust(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    changes = [text for text in options.runs if "=" in text and not os.path.isdir(text)]
    names = [text for text in options.runs if text not in changes]
    code = options.checkout and os.path.realpath(options.checkout)
    is_one = bool(changes or options.threads or code or options.commits)
    if len(names) != 2 - is_one:
        raise errors.SelectionError(
            f"{', '.join(names)}: name two runs; or one, and options, --threads, --checkout or "
            "--commits"
        )
    if code and not os.path.isdir(code):
        raise errors.SelectionError(f"--checkout {code}: no such folder; name a checkout")
    sides = [Side(str(named_folder.run_folder_of(name).path), (*options.trust,)) for name in names]
    other = replace(sides[-1], overrides=(*changes,), threads=options.threads, code=code)
    limits = options.commits, options.tolerance, options.updates
    outcome = parted(sides[0], other, *limits, from_start=options.from_start)
    if not answers.give(asdict(outcome)):
        start, same = outcome.start, f"the same up to update {outcome.agreed}"
        if start:
            made = f"made again from the run's checkpoint {start}"
            span = f"updates {start + 1} to {outcome.agreed}"
            same = f"{span}, {made}, do not differ" if outcome.equal else f"{made}, {same}"
        lines = [same, outcome.first, outcome.commit, *outcome.notes]
        print(*map(printable, map(str, filter(None, lines))), sep="\n")
    return EXIT_EQUAL if outcome.equal else EXIT_DIFFERENT


ANSWERS = [closed({
    "equal": FLAG, "agreed": COUNT, "start": COUNT, "commit": or_null(TEXT),
    "notes": list_of(TEXT),
    "first": or_null(closed({
        "updates": COUNT, "where": TEXT, "what": TEXT, "expected": TEXT, "found": TEXT,
    })),
})]  # fmt: skip
main = Command(
    _parser, ANSWERS, _run, page="ask_a_run.md#where-two-runs-part", failed=EXIT_UNUSABLE,
    parse=argparse.ArgumentParser.parse_intermixed_args,
)  # fmt: skip

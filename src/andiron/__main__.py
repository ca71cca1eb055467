"""`andiron <command>`, also as `python -m andiron`; with overrides alone it trains."""

import difflib
import importlib
import os
import sys
from pathlib import Path

from andiron.plain import wings

COMMANDS = {  # module:function, each imported only when it is asked for
    "train": "andiron.shell.training.train:script",
    "watch": "andiron.wings.screen.watch:main",
    "check": "andiron.wings.runs.check:main",
    "plan": "andiron.wings.runs.plan:main",
    "evaluate": "andiron.wings.trained.evaluate:main",
    "predict": "andiron.wings.trained.predict:main",
    "generate": "andiron.wings.trained.generate:main",
    "export": "andiron.wings.trained.exports.export:main",
    "accept-changes": "andiron.wings.runs.accept_changes:main",
    "runs": "andiron.wings.runs.command:main",
    "new": "andiron.wings.runs.new_project:main",
}
PAGES = {"help": "list_commands", "--help": "main", "-h": "main", "version": "print_version"}
SIMILAR = 0.75  # of 1: `evalute`, but not `resume`, which is an option
GUIDE = "andiron.shell.cli.guide"
# where that is installed, or in a checkout
OF_THE_LAB = (
    "bisect", "consolidate", "differ", "find-lr", "import-state-dict", "recheck", "replay", "rerun",
    "samples", "schema", "seeds", "tokenize", "try", "verify-resume",
)  # fmt: skip


def others() -> dict[str, str]:
    """The commands of other packages, as `COMMANDS`; an entry of the group is such a table."""
    import importlib.metadata  # not for the commands here

    lab = wings.optional(f"{wings.LAB}.commands")
    commands: dict[str, str] = dict(lab.COMMANDS) if lab else {}
    for entry in importlib.metadata.entry_points(group="andiron.commands"):
        commands |= entry.load()
    return commands


def main() -> int:
    """Runs the command that the first argument names, else trains; returns its exit code.

    Without arguments, the commands are listed, but each process of torchrun trains.
    """
    if sys.argv[1:2] == ["help"] and sys.argv[2:]:
        sys.argv[1:] = [*sys.argv[2:], "--help"]
    first, *others_given = sys.argv[1:] or ["" if "RANK" in os.environ else "help"]
    is_word = first.replace("-", "").isalpha()
    commands = COMMANDS | others() if is_word and first not in COMMANDS else COMMANDS
    if first in OF_THE_LAB and first not in commands:
        print(f"error: {wings.missing_lab(f'andiron {first}')}", file=sys.stderr)
        return 2
    place = commands.get(first)
    similar = difflib.get_close_matches(first, {**commands, **PAGES}, n=1, cutoff=SIMILAR)
    if is_word and similar and similar != [first]:
        print(f"error: {first}: no such command; did you mean {similar[0]!r}?", file=sys.stderr)
        return 2
    if first in PAGES and not others_given:
        place = f"{GUIDE}:{PAGES[first]}"
    if first in commands:
        del sys.argv[1]
    if first in commands.keys() - {"train"}:
        program = Path(sys.argv[0])
        name = program if program.name == wings.SCRIPT.name else "andiron"
        sys.argv[0] = f"{name} {first}"  # in its --help and messages
    module, _, function = (place or COMMANDS["train"]).partition(":")
    code: int = getattr(importlib.import_module(module), function)()
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`andiron accept-changes`: new checksums for files of a run that were changed on purpose."""

import argparse
from pathlib import Path

from andiron import errors
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.run import run_record
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import TEXT, closed, list_of
from andiron.wings.commands.declaration import Command


def _parser() -> argparse.ArgumentParser:
    about = "Record new checksums for a run's files, after an intended change."
    parser = declaration.Parser(description=about)
    parser.add_argument("folder", type=Path, help="the run folder")
    return parser


def _accept(options: argparse.Namespace) -> None:
    folder = RunFolder(options.folder.absolute())
    try:
        changed = run_record.accept(folder)
    except OSError as error:
        raise errors.RunFolderError(str(error)) from error
    if not answers.give({"run": str(folder.path), "accepted": changed}):
        lines = "\n".join(f"accepted: {name}" for name in changed)
        print(readable.printable(lines) or "nothing was changed")


ANSWERS = [closed({"run": TEXT, "accepted": list_of(TEXT)})]
main = Command(_parser, ANSWERS, _accept, page="security.md")

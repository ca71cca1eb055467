"""Records new checksums for files of a run that were changed on purpose."""

from pathlib import Path

from andiron import errors
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers, process
from andiron.shell.run import run_record


@process.command
def main() -> int:
    """Runs `andiron accept-changes`; returns the exit code."""
    parser = answers.Parser(
        description="Record new checksums for a run's files, after an intended change."
    )
    parser.add_argument("folder", type=Path, help="the run folder")
    folder = RunFolder(parser.parse_args().folder.absolute())
    try:
        changed = run_record.accept(folder)
    except OSError as error:
        raise errors.RunFolderError(str(error)) from error
    if answers.give({"run": str(folder.path), "accepted": changed}):
        return 0
    lines = "\n".join(f"accepted: {name}" for name in changed)
    print(readable.printable(lines) or "nothing was changed")
    return 0

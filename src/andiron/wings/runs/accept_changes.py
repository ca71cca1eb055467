"""Records new checksums for files of a run that were changed on purpose."""

import argparse
import sys
from pathlib import Path

from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.cli import process
from andiron.shell.run import run_record

EXIT_DONE, EXIT_UNUSABLE = 0, 1


@process.command
def main() -> int:
    """Runs `python scripts/accept_changes.py`; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Record new checksums for a run's files, after an intended change."
    )
    parser.add_argument("folder", type=Path, help="the run folder")
    folder = RunFolder(parser.parse_args().folder.absolute())
    try:
        changed = run_record.accept(folder)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    lines = "\n".join(f"accepted: {name}" for name in changed)
    print(readable.printable(lines) or "nothing was changed")
    return EXIT_DONE

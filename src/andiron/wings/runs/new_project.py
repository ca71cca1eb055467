"""`andiron new mine`: a small project that trains at once, from the files of `andiron/template`."""

import argparse
import importlib.util
import keyword
import sys
from pathlib import Path

import andiron
from andiron import errors
from andiron.plain import readable
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import TEXT, closed
from andiron.wings.commands.declaration import Command

NAME = "__name__"  # in the path of a file; in its text it is {{name}}


def create(folder: Path) -> None:
    """Writes the project in a new folder, whose name its module has.

    Raises: DataError for a folder that is there or cannot be written, or another name.
    """
    name, template = folder.name, Path(andiron.__file__).parent / "template"
    is_taken = keyword.iskeyword(name) or name in sys.modules
    if not name.isidentifier() or is_taken or importlib.util.find_spec(name):
        reason = "is no name that Python can import, or is that of an installed package"
        raise errors.DataError(f"{name}: {reason}; choose another, such as my_project")
    try:
        folder.mkdir(parents=True)
        for source in filter(Path.is_file, template.rglob("*")):
            place = source.relative_to(template).as_posix().replace(NAME, name)
            path = folder / place.replace("dot_", ".").removesuffix(".txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.read_bytes().replace(b"{{name}}", name.encode()))
    except OSError as error:
        raise errors.DataError(f"{folder}: cannot be made: {error.strerror}") from error


def _parser() -> argparse.ArgumentParser:
    about = "Write a project of your own, with a network, a data set, a loss and a metric."
    parser = declaration.Parser(description=about)
    parser.add_argument("folder", type=Path, help="a new folder, named as its Python module")
    return parser


def _create(options: argparse.Namespace) -> None:
    folder = options.folder.absolute()
    create(folder)
    if not answers.give({"folder": str(folder)}):
        print(readable.printable(f"a project in {folder}; there: andiron train"))


main = Command(_parser, [closed({"folder": TEXT})], _create)

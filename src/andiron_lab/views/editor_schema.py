"""`andiron schema`: a JSON Schema of the user's own configuration, for editors.

It is the shipped `conf/schema.json` with the arguments of the classes that the user's files name,
and with the user's variables and groups.
"""

import argparse
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.plain import readable
from andiron.plain.plain_values import strict_json
from andiron.shell.cli import answers
from andiron.shell.config import project, schema, trust, violations
from andiron.shell.config.signatures import signature
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import TEXT, by_name, closed, list_of
from andiron.wings.commands.declaration import Command

FILE = "schema.json"
INTERPOLATION = {"type": "string", "pattern": r"\$\{"}


def schema_of(conf: Path) -> dict[str, Any]:
    """The schema of experiments, and of `project/default.yaml`, in this folder."""
    whole: dict[str, Any] = files.read_json(project.default_conf_dir() / FILE)
    properties = whole["properties"]
    for path in filter(Path.is_file, sorted(conf.rglob("*.yaml"))):
        text, group = path.read_text("utf-8", "replace"), path.relative_to(conf).parts[0]
        content = trust.mapping_in(text)
        content = content if "@package _global_" in text else {group: content}
        for name in content:
            properties.setdefault(name, {})  # of a variable, or a group of them
        for _, place, node in trust.nodes(content):
            known = signature(str(node["_target_"]))
            if known and place in (*schema.NODE_GROUPS, *schema.NAMED_GROUPS):
                shape = properties[place]["anyOf"][0]["anyOf"][0]  # of a node, or of nodes by name
                arguments = shape.get("additionalProperties", shape)["properties"]
                for name, parameter in known.parameters.items():
                    kinds = arguments.setdefault(name, {"anyOf": [INTERPOLATION]})["anyOf"]
                    kinds.append(violations.adapter(parameter.kind).json_schema())
    return whole


def _parser() -> argparse.ArgumentParser:
    about = f"Write {FILE} for editors into the folder of your configuration."
    parser = declaration.Parser(description=about)
    parser.add_argument("--config-dir", type=Path, help="the folder (default: the project's conf)")
    commands = sorted(path.stem for path in _answers().glob("*.json"))
    about = "print the schema of the lines that this command prints with --json instead"
    parser.add_argument("--answers", metavar="COMMAND", choices=commands, help=about)
    return parser


def _answers() -> Path:
    return project.default_conf_dir() / "answers"


def _run(options: argparse.Namespace) -> None:
    if options.answers:
        content = files.read_json(_answers() / f"{options.answers}.json")
        answers.write(f"{strict_json(content)}\n")
    else:
        _write_schema(options.config_dir or next(iter(project.current().conf), None))


def _write_schema(conf: Path | None) -> None:
    if conf is None:
        raise errors.ConfigError("--config-dir: not given, and there is no project here; give it")
    if not conf.is_dir():
        raise errors.ConfigError(f"--config-dir={conf}: no such folder")
    _write(conf / FILE, schema_of(conf))
    if not answers.give({"path": str(conf / FILE)}):
        print(readable.printable(f"{conf / FILE} is written"))


def _write(path: Path, content: dict[str, Any]) -> None:
    """Writes the schema, over an earlier one only.

    Raises: OutputError.
    """
    earlier = None
    with suppress(OSError, ValueError):
        earlier = None if path.is_symlink() else files.read_json(path)
    is_own = isinstance(earlier, dict) and earlier.get("title") == content["title"]
    if os.path.lexists(path) and not is_own:
        why = "is not a schema that this command wrote"
        raise errors.OutputError(f"{path}: {why}, and stays; move it elsewhere")
    files.write_json(path, content)


ANSWERS = [
    closed({"path": TEXT}),
    closed({"$schema": TEXT, "title": TEXT, "anyOf": list_of(by_name())}),
]
main = Command(_parser, ANSWERS, _run)

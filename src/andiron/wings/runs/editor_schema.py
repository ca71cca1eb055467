"""`andiron schema`: a JSON Schema of the user's own configuration, for editors.

It is the shipped `conf/schema.json` with the arguments of the classes that the user's files name,
and with the user's variables and groups.
"""

import argparse
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.disk import files
from andiron.plain import readable
from andiron.shell.cli import process
from andiron.shell.config import project, schema, trust, user_files, violations
from andiron.shell.config.signatures import signature

FILE = "schema.json"


def schema_of(conf: Path) -> dict[str, Any]:
    """The schema of experiments, and of `project/default.yaml`, in this folder."""
    whole: dict[str, Any] = files.read_json(user_files.default_conf_dir() / FILE)
    properties = whole["properties"]
    for path in sorted(conf.rglob("*.yaml")):
        text, group = path.read_text(encoding="utf-8"), path.relative_to(conf).parts[0]
        content = trust.mapping_in(text)
        content = content if "@package _global_" in text else {group: content}
        for name in content:
            properties.setdefault(name, {})  # of a variable, or a group of them
        for _, place, node in trust.nodes(content):
            if place in (*schema.NODE_GROUPS, *schema.NAMED_GROUPS):
                _add_arguments(properties[place]["anyOf"][0]["anyOf"][0], node["_target_"])
    return whole


def _add_arguments(node: dict[str, Any], target: str) -> None:
    """Adds the arguments of a target to the schema of a node, or of nodes by name."""
    arguments = node.get("additionalProperties", node)["properties"]
    found = signature(target)
    for name, parameter in (found.parameters if found else {}).items():
        kinds = arguments.setdefault(name, {"anyOf": [{"type": "string", "pattern": r"\$\{"}]})
        kinds["anyOf"].append(violations.adapter(parameter.kind).json_schema())


@process.command
def main() -> int:
    """Runs `andiron schema`; returns the exit code."""
    about = f"Write {FILE} for editors into the folder of your configuration."
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--config-dir", type=Path, help="the folder (default: the project's conf)")
    conf = parser.parse_args().config_dir
    for folder in [conf] if conf else project.current().conf:
        user_files.check([folder])
        files.write_json(folder / FILE, schema_of(folder))
        print(readable.printable(f"{folder / FILE} is written"))
        return 0
    raise errors.ConfigError(["--config-dir: names no folder, and no project is here; give one"])

"""`docs/parameter_groups.md`: its commands run, its code runs, and its record and errors are real.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "parameter_groups.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]


def arguments_of(line):
    return shlex.split(line.split("train.py")[1])


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_trains(command, line):
    small = ["model.hidden=[5,3]"] if "head" not in line else []
    ran = command(*arguments_of(line), *small, "hydra.run.dir=run")
    assert (ran.code, ran.errors) == (0, "")
    assert json.loads(Path("run/param_groups.json").read_text()).keys() >= {"base"} or (
        "layerwise" in line
    )


def test_the_record_is_the_one_shown(command):
    (line,) = [line for line in COMMANDS if "param_groups.head=" in line]
    (shown,) = [json.loads(text) for kind, text in BLOCKS if kind == "json"]
    assert command(*arguments_of(line), "hydra.run.dir=run").code == 0
    record = json.loads(Path("run/param_groups.json").read_text())
    assert record.keys() == shown.keys()
    for group, entries in shown.items():  # the command of this test trains one epoch of ten
        entries["schedule"] = entries["schedule"].replace("210", "21")
        assert {name: record[group][name] for name in entries} == entries


def test_the_errors_are_those_shown(command):
    (text,) = [text for kind, text in BLOCKS if kind == "text"]
    line, *shown = text.splitlines()
    refused = command(*arguments_of(line))
    assert refused.code == 2
    assert len(refused.problems) == len(shown)
    assert all(map(str.startswith, refused.problems, shown))


def test_the_code_runs():
    (code,) = [text for kind, text in BLOCKS if kind == "python"]
    exec(compile(code, "parameter_groups.md", "exec"), {})

"""docs/tutorial.md: eleven tasks of a newcomer, done as written, print what the page shows."""

import re
from pathlib import Path

import pytest
from conftest import ROOT
from in_process import page_ran

TASKS = re.split(r"^## ", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), flags=re.M)
NUMBER = re.compile(r"\d+(\.\d+)?(e-\d+)?")


def shown(task):
    """The printed lines of a task, as on the page."""
    blocks = re.findall(r"^```text\n(.*?)^```", task, flags=re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line != "..."]


def without_numbers(text):
    return " ".join(NUMBER.sub("#", text).split())


@pytest.mark.slow
def test_each_task_runs_as_written_and_prints_what_the_page_shows(here):
    names, numbered = {}, []
    for task in TASKS[1:]:
        title = task.splitlines()[0]
        output = without_numbers("\n".join(printed for _, printed in page_ran(task, ROOT, names)))
        numbered += [title.partition(".")[0]]

        place = 0
        for line in map(without_numbers, shown(task)):
            assert line in output[place:], (title, line)
            place = output.index(line, place)

    assert numbered == [*map(str, range(1, 12)), "Next"]
    lines = {path.name: path.read_text().count("\n") for path in Path().glob("*.csv")}
    patients = 1 + len(names["patients"].train)
    assert lines == {"predictions.csv": 21, "patients.csv": patients, "progression.csv": patients}

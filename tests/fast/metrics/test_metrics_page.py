"""`docs/metrics.md`: its code runs, and its table names every group of metrics."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from andiron import outputs
from andiron.metrics import Mean, Tally
from andiron.outputs import RegressionOutput

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_every_python_block_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {"__name__": "metrics_page"})


def test_every_group_of_metrics_is_in_the_table():
    groups = {path.stem for path in (ROOT / "conf" / "metrics").glob("*.yaml")}
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert groups <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_table_has_the_fields_of_every_item():
    rows = re.findall(r"^\| `(\w+Output)` \|(.*)\|$", PAGE, re.MULTILINE)
    items = {name for name in vars(outputs) if name.endswith("Output")} - {"SupervisedOutput"}
    assert {name for name, _ in rows} == items
    for name, fields in rows:
        words = {*re.findall(r"`(\w+)`", fields), "weight"}
        assert words == {field.name for field in dataclasses.fields(getattr(outputs, name))}, name


def test_a_metric_that_reads_another_field_is_answered_by_the_fields():
    item = RegressionOutput(torch.tensor(0.0), torch.zeros(2, 1), torch.zeros(2, 1))
    metric = Mean(lambda item: item.logits, higher_is_better=False, name="mine")
    with pytest.raises(AttributeError) as caught:
        Tally([metric]).add(item)
    (note,) = caught.value.__notes__
    assert "; it has: loss, output, targets, weight, has_ignored; correct it, or leave" in note

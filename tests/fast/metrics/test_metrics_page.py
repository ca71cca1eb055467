"""`docs/metrics.md`: its code runs, and its table names every group of metrics."""

import re
from pathlib import Path

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

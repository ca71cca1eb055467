"""`docs/data.md`: its blocks of Python run one after the other, and its table names every choice.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in BLOCKS:
        exec(compile(block, "docs/data.md", "exec"), names)

    assert len(BLOCKS) == 7


def test_the_page_names_every_data_set_of_the_group():
    folders = ROOT / "conf" / "data", ROOT / "src" / "andiron_lab" / "conf" / "data"
    choices = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])} == choices

"""`docs/data.md`: its blocks of Python run one after the other, and its table names every choice.
"""

import re

import pytest
from pages import PAGES, ROOT, blocks, run_python


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python("data.md")
    assert len(blocks("data.md", "python")) == 7


def test_the_page_names_every_data_set_of_the_group():
    pytest.importorskip("andiron_lab", reason="the page names the lab's too")
    folders = ROOT / "conf" / "data", ROOT / "src" / "andiron_lab" / "conf" / "data"
    choices = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    rows = [line for line in PAGES["data.md"].splitlines() if line.startswith("| `")]

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])} == choices

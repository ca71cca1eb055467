"""docs/ask_a_run.md (ask_a_run.md): its commands and its Python run from top to bottom."""

from pathlib import Path

from in_process import page_ran

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "ask_a_run.md").read_text(encoding="utf-8")
    outputs = dict(page_ran(page, ROOT, {}))
    (seen,) = (output for block, output in outputs.items() if "LargestGradient" in block)
    assert [line.split()[0] for line in seen.splitlines()[:3]] == ["40", "41", "42"]
    assert "logged values have the bits of the run" in seen

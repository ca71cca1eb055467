"""The display of a notebook's cell, made by a Jupyter kernel and drawn by Chromium."""

import subprocess
from html import escape

import browser
import nbformat
import pytest
from conftest import ROOT
from jupyter_client import launcher
from nbclient import NotebookClient

EPOCHS, UPDATES = 8, 168
STYLE = """
body { margin: 0; padding: 12px; font: 13px/1.5 sans-serif; background: white; color: #212121 }
#cell { width: 800px; padding: 0 8px 8px }
pre { background: #f5f5f5; border: 1px solid #e0e0e0; padding: 6px; font: 13px/1.3 monospace }
table { border-collapse: collapse; font-size: 12px }
td, th { padding: 0.4em 0.6em; text-align: right }
tbody tr:nth-child(odd) { background: #f5f5f5 }
"""  # as JupyterLab's, which are in the page around an output


@pytest.fixture(scope="module")
def cell(tmp_path_factory, preloaded_processes):
    """The cell of first_run.ipynb that trains, executed with more epochs and log points."""
    book = nbformat.read(ROOT / "docs" / "notebooks" / "first_run.ipynb", as_version=4)
    (training,) = [cell for cell in book.cells if "LearnerBuilder" in cell.source]
    training.source = training.source.replace("num_epochs=4", f"num_epochs={EPOCHS}, log_every=5")
    resources = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    with pytest.MonkeyPatch.context() as environment:
        environment.setattr(launcher, "Popen", subprocess.Popen)
        environment.setenv("PYTHONPATH", str(ROOT / "src"))
        environment.setenv("OMP_NUM_THREADS", "1")
        NotebookClient(book, timeout=300, resources=resources).execute()
    return training


def test_the_output_of_a_kernel_is_one_display(cell):
    displays = [output for output in cell.outputs if output.output_type == "display_data"]
    [display] = displays
    assert f"update {UPDATES}/{UPDATES}" in display.data["text/html"]
    assert not [output for output in cell.outputs if output.output_type == "stream"]


@pytest.mark.slow
@browser.NEEDED
def test_a_browser_draws_bar_and_tables(cell, tmp_path):
    (display,) = [output for output in cell.outputs if output.output_type == "display_data"]
    file = tmp_path / "cell.html"
    code = f"<pre>{escape(cell.source)}</pre>"
    content = f"<div id=cell>{code}{display.data['text/html']}</div>"
    file.write_text(f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{content}")
    with browser.page_of(file.as_uri(), 840, 900) as page:
        page.goto(file.as_uri())
        assert page.locator("progress").bounding_box()["width"] > 100
        epochs, results = page.locator("table").all()
        assert epochs.locator("tr").count() == EPOCHS + 1
        assert "accuracy" in results.inner_text() and "test" in results.inner_text()
        assert results.bounding_box()["y"] == epochs.bounding_box()["y"]  # beside each other

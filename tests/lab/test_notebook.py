"""The output of a notebook's cell: one display that is redrawn."""

import sys
import types

import pytest

from andiron import render
from andiron.plain import wings
from andiron.progress import Progress
from andiron.protocols import Point
from andiron_lab.views.notebook import Notebook

SUMMARY = {
    "model": "MLP", "num_parameters": 1234, "updates": 6, "seconds": 2.0,
    "run_dir": "outputs/<mine>",
    "metrics": [{"split": "valid", "metric": "loss", "best": 0.25, "epoch_of_best": 2, "last": 0.5},
                {"split": "valid", "metric": "recall/cat", "best": 1.0, "epoch_of_best": 1,
                 "last": 1.0},
                {"split": "valid", "metric": "recall", "best": 1.0, "epoch_of_best": 1,
                 "last": 1.0}],
}  # fmt: skip


class Handle:
    """Stands for a display in a notebook: collects its contents."""

    def __init__(self, html):
        self.pages = [html]

    def update(self, html):
        self.pages.append(html)


@pytest.fixture
def displays(monkeypatch):
    made = []

    def display(html, *, display_id):
        assert display_id is True
        made.append(Handle(html))
        return made[-1]

    class ZMQInteractiveShell:
        pass

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display, ipython.display.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return made


def test_a_notebook_has_one_output_with_bar_and_table(displays):
    shown = render.for_python()
    assert isinstance(shown, Notebook)
    progress = Progress(num_epochs=2, num_updates=8, updates=4)
    shown.start(progress)
    for updates in (2, 4):
        shown.add(Point("train", updates, 1, {"loss": 1.0 / updates, "lr/base": 0.1}))
    shown.add(Point("valid", 4, 1, {"loss": 0.75, "top <1>": 0.5}, whole_epoch=True))
    progress.latest = {"train": {"loss": 0.25}, "valid": {"loss": 0.75, "top <1>": 0.5}}
    shown.epoch_ended(progress, 1.0)
    shown.stop()
    shown.show(SUMMARY)

    [display] = displays
    page = display.pages[-1]
    assert '<progress value="4" max="8">' in page and "epoch 1/2, update 4/8" in page
    assert "<th>valid top &lt;1&gt;</th>" in page and "<td>0.5000</td>" in page
    assert "MLP, 1,234 parameters, 6 updates" in page and "outputs/&lt;mine&gt;" in page
    assert "<td>recall</td>" in page and "cat" not in page


def test_a_script_or_a_notebook_without_the_lab_prints_plain_lines(request, monkeypatch):
    assert isinstance(render.for_python(), render.Plain)
    request.getfixturevalue("displays")
    monkeypatch.setattr(wings, "optional", lambda name: None)
    assert isinstance(render.for_python(), render.Plain)

"""The view of a person: every tab of TensorBoard in Chromium, over two runs with everything on.

`ANDIRON_PICTURES=docs/pictures` trains for longer and takes the pictures of docs/tensorboard.md.
"""

import io
import json
import os
import time
from pathlib import Path

import browser
import pytest
from in_process import called
from PIL import Image
from tensorboard_server import serving
from waiting import until

from andiron.shell.training import train

PICTURES = os.environ.get("ANDIRON_PICTURES")
EPOCHS = 10 if PICTURES else 2
UPDATES = 21 * EPOCHS
OPTIONS = ("model=convnet", "lr=1e-2", f"num_epochs={EPOCHS}", "log_every=5", "histograms=true",
           "metrics=[classification_pictures,roc_curve]", "writers.tensorboard.embeddings=1000",
           "render=plain")  # fmt: skip
OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}  # by run
PATIENCE = 120_000  # milliseconds: a busy machine draws slowly


def run_made(folder, optimizer):
    """A run's values in its summary, by split and metric."""
    ended = called(train.main, *OPTIONS, f"optimizer={optimizer}", f"hydra.run.dir={folder}")
    assert (ended.code, ended.errors) == (0, "")
    rows = json.loads((folder / "summary.json").read_text())["metrics"]
    return {f"{row['split']}/{row['metric']}": row["last"] for row in rows}


class Tabs:
    """The tabs of a server in one page."""

    def __init__(self, page, address):
        self.page, self._address = page, address
        page.set_default_timeout(PATIENCE)

    def show(self, tab, tags=""):
        """Opens a tab; some show only the tags that fit a pattern."""
        self.page.mouse.move(0, 0)  # a chart below it would show its values
        self.page.goto(f"{self._address}#{tab}" + (f"&tagFilter={tags}" if tags else ""))

    def visible(self, text, inside="body"):
        """Waits until an element that has this text is seen."""
        result = self.page.locator(inside).get_by_text(text, exact=True)
        result.locator("visible=true").first.wait_for()

    def node(self, name):
        """A node of the graph."""
        return self.page.locator(f'g.node[data-name="{name}"]').first

    def shape(self, name):
        """The shape of a graph node, which receives clicks."""
        return self.node(name).locator(".nodeshape").first

    def taken(self, name):
        """Takes a picture of the page if requested."""
        if PICTURES:
            time.sleep(5)  # animations end
            with Image.open(io.BytesIO(self.page.screenshot())) as image:
                few_colours = image.convert("RGB").quantize(128)
            few_colours.save(Path(PICTURES) / f"tensorboard_{name}.png", optimize=True)


@pytest.mark.slow
@browser.NEEDED
def test_every_tab_shows_what_the_runs_have_logged(tmp_path):
    runs = tmp_path / "runs"
    values = {name: run_made(runs / name, name) for name in OPTIMIZERS}
    with (
        serving(runs, tmp_path / "said.txt") as address,
        browser.page_of(address, 1200, 760, flags=["--enable-unsafe-swiftshader"]) as page,
    ):
        tabs = Tabs(page, address)
        time_series(tabs, values)
        scalars(tabs)
        images(tabs)
        graphs(tabs)
        curves_of_weights(tabs)
        texts(tabs)
        precision_recall(tabs)
        hyperparameters(tabs, values)
        projector(tabs)


def time_series(tabs, values):
    """Both splits of every run are on one chart, with the values of the summary."""
    tabs.show("timeseries")
    tabs.page.get_by_role("button", name="Settings").first.click()  # hides them
    tabs.page.get_by_placeholder("Filter tags (regex)").last.fill("^(accuracy|loss)$")
    tabs.page.keyboard.press("Escape")  # the tags that fit are listed
    rows = tabs.page.locator("tb-data-table-content-row")
    for name in OPTIMIZERS:
        for metric in ("accuracy", "loss"):
            shown = f"{values[name][f'valid/{metric}']:.4f}".rstrip("0")
            row = rows.filter(has_text=f"{name}/tensorboard/valid").filter(has_text=shown)
            row.first.wait_for(state="attached")  # the last are below the edge of their list
    tabs.taken("time_series")


def scalars(tabs):
    tabs.show("scalars")
    for category in ("accuracy", "grad_norm", "loss", "lr", "time"):
        tabs.page.locator("tf-category-paginated-view", has_text=category).first.wait_for()


def images(tabs):
    """ROC curves of 256 pixels, and worst errors of four columns of 8 pixels."""
    tabs.show("images", "worst_errors")
    pictures = tabs.page.locator("tf-image-loader img")
    widths = "all => all.map(each => each.naturalWidth)"
    until(lambda: {32, 256} <= {*pictures.evaluate_all(widths)})
    tabs.taken("images")


def graphs(tabs):
    """Layers in their boxes between the inputs and the loss; an operation names its weights."""
    tabs.show("graphs")
    head = "Sequential[head]"
    for name in ("inputs", "targets", "cross_entropy"):
        tabs.node(name).wait_for()
    for box in ("Sequential[features]", head, f"{head}/Linear[3]"):
        tabs.shape(box).dispatch_event("dblclick")  # wherever the graph has moved to
    tabs.node("Sequential[features]/Conv2d[0]").wait_for()
    tabs.page.get_by_text("Fit to screen").click()
    operation = tabs.shape(f"{head}/Linear[3]/linear")

    def chosen():
        operation.dispatch_event("click")
        return tabs.page.get_by_text("network.head.3.weight [10, 512]").count()

    until(chosen)
    tabs.taken("graph")


def curves_of_weights(tabs):
    for tab in ("distributions", "histograms"):
        tabs.show(tab)
        tabs.visible("gradients/network.features.0.weight")
    tabs.taken("histograms")


def texts(tabs):
    tabs.show("text")
    for page in ("config", "param_groups", "provenance"):
        tabs.page.locator("tf-category-paginated-view", has_text=page).first.wait_for()
    tabs.page.get_by_text('"_target_": "andiron.data.digits"').first.wait_for()


def precision_recall(tabs):
    """A chart for each class, with both runs after the last validation."""
    tabs.show("pr_curves")
    for number in range(10):
        tabs.visible(f"pr_curve/{number}")
    tabs.page.get_by_text(f"sgd/tensorboard/valid is at step {UPDATES}").first.wait_for()
    tabs.page.get_by_text("pr_curve/8", exact=True).first.scroll_into_view_if_needed()
    tabs.taken("pr_curves")


def hyperparameters(tabs, values):
    """The option that differs stands first, and the values equal the summary."""
    tabs.show("hparams")
    for name, title in OPTIMIZERS.items():
        tabs.visible(title, "tf-hparams-table-view")
        shown = f"{values[name]['test/accuracy']:#.5g}"
        tabs.page.get_by_text(shown).first.wait_for(state="attached")
    table = tabs.page.locator("tf-hparams-table-view")
    differs, same = (
        table.get_by_text(name, exact=True).first.bounding_box()
        for name in ("optimizer", "batch_size")
    )
    assert differs["x"] < same["x"]
    tabs.taken("hparams")


def projector(tabs):
    """A point for each validation sample, with the features before the last layer."""
    tabs.show("projector")
    inner = tabs.page.frame_locator("iframe").frame_locator("iframe")
    for shown in ("Points: 143", "Dimension: 512", "Total variance described"):
        inner.get_by_text(shown).first.wait_for()
    tabs.taken("projector")

"""A run in Weights & Biases; needs `pip install andiron[wandb]`."""

import html
import logging
import secrets
from pathlib import Path
from typing import Any, Literal

from andiron.plain.plain_values import Plain
from andiron.writers.fanout import AcceptedNames
from andiron.protocols import Hyperparameters, Pages, Point, Position

log = logging.getLogger("andiron")


class WandbWriter:
    """Logs to a run of Weights & Biases; the step is the number of completed updates.

    Values are named `<split>/<metric>`; training values are means over windows. Histograms, images
    and pages of text are logged too. With mode `offline` everything is written to `run_dir`/wandb,
    and `wandb sync` uploads it later. `options` are further arguments of `wandb.init`. A resumed
    run continues under its id. W&B keeps the first values of a step, so it drops values that a
    resumed run repeats.
    """

    sends_data = True

    def __init__(
        self,
        run_dir: Path,
        *,
        project: str = "andiron",
        mode: Literal["online", "offline", "disabled"] = "online",
        options: Plain | None = None,
    ):
        import wandb  # takes seconds, and is an optional dependency

        self._wandb = wandb
        self._name = AcceptedNames("Weights & Biases", r"[\ud800-\udfff]|(?<=/)epoch\Z")  # UTF-8
        self._options = {"dir": run_dir, "name": run_dir.name, "project": project, "mode": mode}
        self._options |= options or {}
        self._id = secrets.token_hex(4)
        self._run: Any = None

    def write(self, point: Point) -> None:
        """Logs the point, unless it is a training epoch's mean: its windows are logged already."""
        if point.split == "train" and point.whole_epoch:
            return
        logged: Plain = {**point.values}
        for tag, markdown in point.texts.items():
            logged[tag] = self._page(markdown)
        for tag, pixels in point.images.items():
            logged[tag] = self._wandb.Image(pixels.permute(1, 2, 0).cpu().numpy())
        for tag, tensor in point.histograms.items():
            finite = tensor[tensor.isfinite()].detach().cpu().float()
            logged[tag] = self._wandb.Histogram(finite.numpy())
        named = {self._name[f"{point.split}/{name}"]: value for name, value in logged.items()}
        self._open_run().log({f"{point.split}/epoch": point.epoch, **named}, step=point.updates)

    def start_session(self, hyperparameters: Hyperparameters, texts: Pages) -> None:
        """Sets the config of the W&B run and logs the pages of text."""
        self._open_run().config.update(dict(hyperparameters))
        pages = {f"text/{tag}": self._page(markdown) for tag, markdown in texts.items()}
        self._open_run().log(pages, step=0)

    def end_session(self, *, succeeded: bool) -> None:
        """Marks the W&B run as finished or failed."""
        self._finish(exit_code=0 if succeeded else 1)

    def position(self) -> Position:
        """The id of the W&B run."""
        return {"id": self._id}

    def rewind(self, position: Position, updates: int) -> None:
        """Continues the W&B run with this id."""
        self._id = position["id"]

    def close(self) -> None:
        """Marks the W&B run of an interrupted run as preempted."""
        if self._run is not None:
            self._run.mark_preempting()
            self._finish(exit_code=1)

    def _open_run(self) -> Any:
        """The W&B run; opened on first use, since `rewind` may still set its id."""
        if self._run is None:
            quiet = self._wandb.Settings(console="off", silent=True)
            self._run = self._wandb.init(
                **self._options, id=self._id, resume="allow", reinit="create_new", settings=quiet
            )
            if not self._run.offline:
                log.info("Weights & Biases: %s", self._run.url)
        return self._run

    def _finish(self, *, exit_code: int) -> None:
        self._open_run().finish(exit_code=exit_code)
        self._run = None

    def _page(self, markdown: str) -> Any:
        return self._wandb.Html(f"<pre>{html.escape(markdown)}</pre>")

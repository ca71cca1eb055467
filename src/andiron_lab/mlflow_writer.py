"""A run in MLflow; needs `pip install andiron[mlflow]`."""

import time
from pathlib import Path

from andiron.writers.fanout import AcceptedNames
from andiron.protocols import Hyperparameters, Pages, Point, Position
from andiron.run_folder import RunFolder

MOST_LETTERS, MOST_METRICS = 6000, 1000  # of a parameter's value, of a call: limits of MLflow 3
PARTS = r"\A\.\.|(?<![^/])\.{0,2}(?![^/])"  # of a path: empty, . and ..
REFUSED = rf"[^\w.\-/: ]|{PARTS}|(?<=/)epoch\Z"  # `epoch` is the writer's own
REFUSED_IN_FILE = rf"[^A-Za-z0-9_.\-/ ]|{PARTS}"
MOST_IN_NAME, MOST_IN_FILE = 250, 200


class MlflowWriter:
    """Logs to a run of MLflow; the step is the number of completed updates.

    Values are named `<split>/<metric>`; training values are means over windows. Images and pages
    of text become artifacts; MLflow has no histograms. Without a `tracking_uri` the store is
    `run_dir`/mlflow: `mlflow ui --backend-store-uri sqlite:///<run_dir>/mlflow/store.db`. A log
    point waits for the store, about 20 ms for a local one. A resumed run continues under its id.
    MLflow cannot remove values, so existing steps are not logged again. A name that it would
    refuse gets a checksum.
    """

    sends_data = True

    def __init__(
        self, run_dir: Path, *, experiment: str = "andiron", tracking_uri: str | None = None
    ):
        import mlflow  # takes seconds, and is an optional dependency

        self._entities = mlflow.entities
        self._name = AcceptedNames("MLflow", REFUSED, MOST_IN_NAME)
        self._file_name = AcceptedNames("MLflow", REFUSED_IN_FILE, MOST_IN_FILE)
        self._run_name, self._experiment = run_dir.name, experiment
        self._artifacts = None  # None: chosen by the server
        if tracking_uri is None:
            local = RunFolder(run_dir).mlflow.absolute()
            local.mkdir(parents=True, exist_ok=True)
            tracking_uri = f"sqlite:///{local / 'store.db'}"
            self._artifacts = (local / "artifacts").as_uri()
        self._client = mlflow.MlflowClient(tracking_uri)
        self._id: str | None = None
        self._is_running = False
        self._last_steps: dict[str, int] = {}  # by split

    def write(self, point: Point) -> None:
        """Logs the point, unless it is a training epoch's mean: its windows are logged already."""
        run, split, step = self._running_id(), point.split, point.updates
        if (split == "train" and point.whole_epoch) or not self._is_new(point):
            return
        now = int(time.time() * 1000)
        values = {self._name[f"{split}/{name}"]: value for name, value in point.values.items()}
        values |= {f"{split}/epoch": float(point.epoch)} if values else {}
        metrics = [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        for first in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(run, metrics=metrics[first : first + MOST_METRICS])
        for tag, markdown in point.texts.items():
            name = self._file_name[f"{split}/{tag}"]
            self._client.log_text(run, markdown, f"{name}-{step}.md")
        for tag, pixels in point.images.items():
            image = pixels.permute(1, 2, 0).cpu().numpy()
            name = self._file_name[f"{split}/{tag}"]
            self._client.log_image(run, image, f"{name}-{step}.png")

    def start_session(self, hyperparameters: Hyperparameters, texts: Pages) -> None:
        """Sets the parameters of the MLflow run and stores the pages of text."""
        run = self._running_id()
        for name, value in hyperparameters.items():
            self._client.log_param(run, self._name[name], str(value)[:MOST_LETTERS])
        for tag, markdown in texts.items():
            self._client.log_text(run, markdown, f"{self._file_name[tag]}.md")

    def end_session(self, *, succeeded: bool) -> None:
        """Ends the MLflow run as finished or failed."""
        self._end("FINISHED" if succeeded else "FAILED")

    def position(self) -> Position:
        """The id of the MLflow run."""
        return {"id": self._running_id()}

    def rewind(self, position: Position, updates: int) -> None:
        """Continues the MLflow run with this id."""
        self._id = position["id"]

    def close(self) -> None:
        """Ends the MLflow run of an interrupted run as killed."""
        if self._is_running:
            self._end("KILLED")

    def _running_id(self) -> str:
        """The MLflow run's id; starts the run on first use, since `rewind` may set the id."""
        client = self._client
        if self._id is None:
            existing = client.get_experiment_by_name(self._experiment)
            experiment = (
                existing.experiment_id
                if existing
                else client.create_experiment(self._experiment, self._artifacts)
            )
            self._id = client.create_run(experiment, run_name=self._run_name).info.run_id
        elif not self._is_running:
            client.update_run(self._id, "RUNNING")
        self._is_running = True
        return self._id

    def _is_new(self, point: Point) -> bool:
        """Whether an earlier process has not logged this step."""
        if point.split not in self._last_steps:
            history = self._client.get_metric_history(self._id, f"{point.split}/epoch")
            self._last_steps[point.split] = max((value.step for value in history), default=-1)
        return point.updates > self._last_steps[point.split]

    def _end(self, status: str) -> None:
        self._client.set_terminated(self._running_id(), status)
        self._is_running = False

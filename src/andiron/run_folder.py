"""The names of all files and folders in a run's folder.

>>> folder = RunFolder(Path("outputs/mine"))
>>> folder.config.as_posix(), folder.weights("model-ema").name
('outputs/mine/config.json', 'model-ema.safetensors')
>>> folder.owns("summary.json"), folder.owns("notes.txt")
(True, False)
"""

from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path

NUMBERED = ("model-*.safetensors", "dirty*.patch")  # one for each average, for each repository
HYDRA_FILES = (".hydra/config.yaml", ".hydra/hydra.yaml", ".hydra/overrides.yaml")
LEDGER = "sweep.jsonl"  # in the folder of a sweep
CSV_HEADER = b"split,updates,epoch,over,metric,value\n"  # of metrics.csv
MOST_IN_A_LINE = 2**22  # bytes of metrics.jsonl
# in tensorboard/<split>/, for the Projector tab, which looks for the last one
PROJECTOR = ("features.tsv", "labels.tsv", "sprite.png", "projector_config.pbtxt")


def is_sweep(folder: Path) -> bool:
    """Whether a folder is a sweep's: it has a ledger."""
    return (folder / LEDGER).is_file()


class RunFolder:
    """The paths of everything that a run writes below `path`; nothing is created or read."""

    def __init__(self, path: Path):
        self.status = path / "status.json"  # running, done, interrupted or failed, and why
        self.log = path / "experiment.log"  # a running process holds a lock on it
        self.manifest = path / "manifest.json"  # identity, and checksums of recorded files
        self.config = path / "config.json"  # resolved and plain
        self.code = path / "code.py"  # of a run started from Python: what built it
        self.hydra = path / ".hydra"  # Hydra's own record of the composition
        self.provenance = path / "provenance.json"  # code, versions, hardware, data, resumes
        self.data = path / "data.json"  # facts of the data set, such as num_classes
        self.param_groups = path / "param_groups.json"  # the owner of each parameter
        self.metrics = path / "metrics.jsonl"  # every logged value
        self.tensorboard = path / "tensorboard"  # the same values, as event files
        self.metrics_csv = path / "metrics.csv"  # the same values, with writers=csv
        self.wandb = path / "wandb"  # the local files of Weights & Biases
        self.mlflow = path / "mlflow"  # the local files of MLflow
        self.checkpoints = path / "checkpoints"  # the states to resume from
        self.nonfinite = path / "nonfinite"  # updates with a NaN or an infinity, to replay
        self.profile = path / "profile"  # traces of updates, with the option of this name
        self.ranks = path / "ranks"  # the logs of ranks other than 0
        self.model = path / "model.safetensors"  # the trained weights
        self.summary = path / "summary.json"  # best and last value of every metric
        self.own = tuple(vars(self).values())
        self.recorded = (
            self.config, self.code, self.provenance, self.data, self.param_groups, self.model,
            self.summary,
        )  # fmt: skip
        self.path = path

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def weights(self, name: str) -> Path:
        """The exported weights `model`, or `model-<average>`."""
        return self.path / f"{name}.safetensors"

    def rank_log(self, rank: int) -> Path:
        """The log of a rank other than 0."""
        return self.ranks / f"{rank}.log"

    def owns(self, name: str) -> bool:
        """Whether a run writes a file or folder of that name here."""
        is_numbered = any(fnmatch(name, pattern) for pattern in NUMBERED)
        return is_numbered or any(name == path.name for path in self.own)

    def records(self, name: str) -> bool:
        """Whether a run lists a file of that name, relative to its folder, in its manifest."""
        is_numbered = "/" not in name and any(fnmatch(name, pattern) for pattern in NUMBERED)
        return is_numbered or name in HYDRA_FILES or name in {path.name for path in self.recorded}

    def has_checkpoint(self) -> bool:
        """Whether a checkpoint was saved, whole or damaged."""
        return any(self.checkpoints.glob("step-*"))


def folder_at(path: Path | str | None) -> RunFolder:
    """The folder at `path`, or outputs/<date>/<time>, as train.py names the folder of a run."""
    new = Path("outputs") / datetime.now().strftime("%Y-%m-%d/%H-%M-%S-%f")
    return RunFolder(new if path is None else Path(path))

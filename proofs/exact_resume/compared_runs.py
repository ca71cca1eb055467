"""Two runs of one command compared bit for bit, each with the checkpoints in its own store."""

from functools import partial
from pathlib import Path

from andiron.checkpoint import LocalStore
from andiron.disk import files
from andiron.shell.assembly import configured_store
from andiron.shell.config.schema import Train
from andiron.shell.config.trust import Trust
from andiron_lab.ask import bit_comparison
from andiron_lab.ask.bit_comparison import Counts, Difference, Stores


def compare(straight: Path, other: Path) -> list[Difference]:
    """Every difference between two finished runs."""
    return bit_comparison.compare(straight, other, stores(straight))


def counts(run_dir: Path) -> Counts:
    """How much of a finished run is compared."""
    return bit_comparison.counts(run_dir, stores(run_dir))


def stores(run_dir: Path) -> Stores:
    """The store that the record names, which is trusted: this user's command has trained the run.

    Without a record it is the run's own folder.
    Raises: RunFolderError if the folder holds no finished run.
    """
    path = bit_comparison.finished(run_dir).config
    if not path.exists():
        return LocalStore
    trusted = Trust().with_config(files.read_json(path))
    return partial(configured_store.store, Train.load(path, trusted).checkpoint)

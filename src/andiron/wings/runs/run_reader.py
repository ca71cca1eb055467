"""A run as its folder records it, each part read when it is asked for.

The folder is untrusted: damaged, missing or oversized files become `problems`, never errors; only
`records`, which checks the manifest, and the lines of the log raise DataError with the file's name.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from andiron import errors
from andiron.plain import improvement
from andiron.plain.improvement import LAST
from andiron.plain.plain_values import Named, Plain, is_finite, moment
from andiron.plain.states import State
from andiron.run_folder import RunFolder
from andiron.shell.run import log_file, run_record
from andiron.shell.run.resume_policy import values_by_update
from andiron.shell.run.status import DIRECTIONS
from andiron.wings.runs import logged_lines
from andiron.wings.runs.logged_lines import Line
from andiron.wings.runs.untrusted_files import (
    Standing, flat_options, read_object, standing_after, standings_of,
)  # fmt: skip

MOST_LOGGED_BYTES = 32 * 2**20  # of metrics.jsonl: 100,000 log points
MOST_METRICS = 10_000
MOST_OPTIONS = 20_000  # values in config.json; memory for a thousand runs is bounded with it
TEXTS = ("status", "reason", "started", "ended")
NUMBERS = ("epochs", "updates", "seconds", "num_parameters")
FACTS = ("path", "problem", *TEXTS, *NUMBERS)


class RunReader:
    """A run folder; an unreadable run is one whose status is damaged.

    `best_directions` gives the directions of metrics, for a run that has not ended.
    """

    def __init__(
        self, folder: RunFolder, best_directions: Callable[[], Mapping[str, str]] | None = None
    ):
        self.folder = folder
        self.path: Path = folder.path  # as given or found
        self._best_directions = best_directions or (lambda: directions([self]))
        self._problems: list[str] = []

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """A line for each file that cannot be read."""
        _ = self.facts, self.metrics
        return tuple(self._problems)

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """Every option by its dotted name; the name of a node has its class.

        Without paths in the run's own folder, in which all runs would differ.
        """
        options = flat_options(read_object(self.folder.config, self._problems, MOST_OPTIONS))
        own = f"{self.path.absolute()}/"
        return {name: at for name, at in options.items() if not f"{at}/".startswith(own)}

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Status, reason, started, ended, and NUMBERS, as far as known."""
        facts = self._recorded_facts
        return facts if self._summary_metrics else self._logged[0] | facts

    @cached_property
    def metrics(self) -> Mapping[str, Standing]:
        """The standing of each metric by split and name, as `valid/accuracy`."""
        return self._summary_metrics or self._logged[1]

    @cached_property
    def directions(self) -> Mapping[str, str]:
        """Whether the lowest or highest value of a metric is best, as the run recorded it."""
        # else that of the metric that checkpoints follow, if the configuration gives it
        followed = {str(self._option("metric")): self._option("direction")}
        known = self._summary.get(DIRECTIONS) or self._status.get(DIRECTIONS)
        recorded = known or followed
        return {
            name: direction
            for name, direction in (recorded.items() if isinstance(recorded, dict) else ())
            if direction in improvement.DIRECTIONS
        }

    @property
    def provenance(self) -> Plain:
        """The origin of the run, read anew; empty if it cannot be read."""
        return read_object(self.folder.provenance, [])

    @property
    def followed(self) -> str | None:
        """The metric that the run's checkpoints follow, as `valid/loss`."""
        metric = self._option("metric")
        return f"{self._option('split')}/{metric}" if isinstance(metric, str) else None

    @cached_property
    def records(self) -> dict[str, Plain]:
        """The objects in config, provenance and param_groups.json, by these names.

        An object is empty without its file.
        Raises: DataError for a file that was changed, is damaged or missing, also the summary.
        """
        folder = self.folder
        paths = folder.config, folder.provenance, folder.param_groups
        records: dict[str, Plain] = {
            path.stem: run_record.read_json(folder, path) if os.path.lexists(path) else {}
            for path in paths
        }
        if os.path.lexists(folder.summary):
            run_record.check(folder, folder.summary)
        if self.problems:
            problems = (f"{self.path}: {problem}" for problem in self.problems)
            raise errors.DataError("; ".join(problems))
        return records

    def value(self, name: str) -> Any:
        """The fact, option or best value of a metric with this name, else None.

        `valid/loss.last` is the last value of a metric.
        """
        if name == "path":
            return str(self.path)
        if name == "problem":
            return "; ".join(self.problems) or None
        if name in FACTS:
            return self.facts.get(name)
        if name in self.options:
            return self.options[name]
        standing = self.metrics.get(name.removesuffix(LAST))
        if standing is None:
            return None
        return standing.last if name.endswith(LAST) else standing.best

    def result(self, metric: str) -> float | None:
        """The value of a metric; NaN if the run diverged, None if it has none."""
        is_diverged = self.facts["status"] == State.DIVERGED
        return float("nan") if is_diverged else self.value(metric)

    def changes(self) -> Plain:
        """The options changed by resumes of the run, with their newest values."""
        by_update = values_by_update(self.provenance.get("resumes"))
        return {name: values[-1][1] for name, values in by_update.items()}

    def epoch_lines(self) -> Iterator[Line]:
        """The values logged for whole epochs and validations, in order; none without a file.

        Raises: DataError for a file that is damaged, too large, a link, or not a regular file.
        """
        path = self.folder.metrics
        if path.is_symlink():
            raise errors.DataError(f"{path}: is a link")
        lines = logged_lines.read(path, MOST_LOGGED_BYTES, b'"over": "epoch"')
        return (line for line in lines if line.over == "epoch")

    def validations(self, name: str) -> Iterator[tuple[int, float]]:
        """Completed updates and value of a metric such as `valid/accuracy`, at each validation.

        Raises: as `epoch_lines`.
        """
        split, metric = improvement.split_and_metric(name)
        for line in self.epoch_lines():
            if line.split == split and metric in line.values:
                yield line.updates, float(line.values[metric])

    def _option(self, name: str) -> Any:
        return self.options.get(f"checkpoint.{name}")

    @cached_property
    def _status(self) -> Plain:
        _ = self.options  # its problems are first
        return read_object(self.folder.status, self._problems)

    @cached_property
    def _summary(self) -> Plain:
        is_done = self._status.get("status") == State.DONE
        return read_object(self.folder.summary, self._problems) if is_done else {}

    @cached_property
    def _summary_metrics(self) -> dict[str, Standing]:
        rows = self._summary.get("metrics")
        return dict(standings_of(rows, self._problems)) if self._summary else {}

    @cached_property
    def _recorded_facts(self) -> Plain:
        recorded = self._status
        facts: Plain = {
            name: recorded[name] for name in TEXTS if isinstance(recorded.get(name), str)
        }
        if "status" not in facts:
            self._problems.append(f"{self.folder.status.name}: has no status")
        _ = self._summary_metrics  # and their problems
        summary = self._summary
        facts |= {name: summary[name] for name in NUMBERS if is_finite(summary.get(name))}
        facts.setdefault("seconds", seconds(facts))
        status = facts.get("status")
        if status is None or (status == State.DONE and self._problems):
            facts["status"] = State.DAMAGED
        elif status == State.FAILED and recorded.get(State.DIVERGED):
            facts["status"] = State.DIVERGED
        elif status == State.RUNNING and is_abandoned(self.folder.log):
            facts["status"] = State.KILLED
        return facts

    @cached_property
    def _logged(self) -> tuple[dict[str, int], dict[str, Standing]]:
        """The numbers of epochs and updates in the log, and the standings of its metrics."""
        _ = self._recorded_facts  # its problems are first
        epochs = updates = 0
        standings: dict[str, Standing] = {}
        best_directions = self._best_directions()
        try:
            for line in self.epoch_lines():
                epoch = line.epoch if line.updates else 0
                epochs, updates = max(epochs, epoch), max(updates, line.updates)
                for metric, value in line.values.items():
                    direction = improvement.direction_of(metric, best_directions)
                    name = f"{line.split}/{metric}"
                    before = standings.get(name)
                    standings[name] = standing_after(before, value, epoch, direction)
                if len(standings) > MOST_METRICS:
                    why = f"more than {MOST_METRICS:,} metrics"
                    raise errors.DataError(f"{self.folder.metrics}: {why}")
        except errors.DataError as error:
            self._problems.append(str(error).removeprefix(f"{self.path}{os.sep}"))
            return {}, standings
        return {"epochs": epochs, "updates": updates}, standings


def read(
    folders: Iterable[RunFolder], given: Mapping[str, str] | None = None
) -> list[RunReader]:
    """The runs in these folders, which share the directions of metrics; `given` ones are first."""
    runs: list[RunReader] = []
    shared = cache(lambda: directions(runs) | dict(given or {}))
    runs += [RunReader(folder, shared) for folder in folders]
    return runs


def directions(runs: Iterable[RunReader]) -> dict[str, str]:
    """The best direction of each metric, as most runs recorded it; the loss defaults to lowest."""
    votes = Counter(vote for run in runs for vote in run.directions.items())
    recorded = dict(vote for vote, _ in reversed(votes.most_common()))  # the last of a name stays
    return {"loss": "lowest"} | recorded


def seconds(status: Named, until: datetime | None = None) -> float | None:
    """Seconds from the recorded start to the end or `until`; None if either is unknown."""
    started, ended = moment(status.get("started")), moment(status.get("ended")) or until
    if started is None or ended is None:
        return None
    return max(0.0, (ended - started).total_seconds())


def is_abandoned(path: Path) -> bool:
    """Whether the process that trained a running run is gone: its log at `path` is not locked.

    False for a log that cannot be written here. As with `log_file.locked`, never call it for a log
    that this process has open.
    """
    try:
        is_writable = stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.W_OK)
    except OSError:
        return True
    return is_writable and not log_file.is_held(path)

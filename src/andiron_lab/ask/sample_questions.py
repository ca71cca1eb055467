"""Which samples an update saw, which stand behind a jump of the loss, and what became of one."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import inf, isfinite
from statistics import median

from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config.trust import Trust
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.seen_samples import Row, SeenSamples
from andiron.wings.runs import logged_lines

FORMER = 20  # log points: a value is compared with their median
MOST = 5  # samples of an update of a spike
NORM = "grad_norm/"


class SampleQuestions:
    """Questions about the samples of a recorded run, with the answers of `andiron samples`.

    `from_start` allows to make updates again from the start of the run.
    Raises: as `Recorded`; SelectionError for what the run has not, or what needs `from_start`.
    """

    def __init__(self, folder: RunFolder, trusted: Trust, *, from_start: bool = False):
        self.run, self._from_start = Recorded(folder, trusted), from_start

    def of_update(self, number: int) -> Row:
        """The samples of an update, the worst first.

        It is made with the updates up to the next one that the run logged, saved or ended with.
        """
        last = self.run.next_record(number, *self.run.nonfinite)
        return self._made({number, last}, SeenSamples([number]))

    def spikes(self, number: int) -> Row:
        """The largest jumps of loss and gradient norm: for each its update, then the one before.

        Updates on record as not finite come first.
        """
        jumps = sorted(self._jumps(), key=lambda entry: -entry["rise"])[:number]
        wanted = {at for entry in jumps for at in range(entry["first"] - 1, entry["last"] + 1)}
        made = self._made(wanted - {self.run.beginning}, SeenSamples(wanted, MOST))
        seen = made.pop("updates")
        for jump in jumps:
            within = range(jump["first"], jump["last"] + 1)
            highest = [entry for entry in seen if entry["update"] in within]
            jump["updates"] = largest = [max(highest, key=_height)] if highest else []
            former = {made["update"] - 1 for made in largest}
            largest += [entry for entry in seen if entry["update"] in former][-1:]
        return made | {"spikes": jumps}

    def of_sample(self, sample: int | str) -> Row:
        """Each update that saw the sample; those from which it was right, and wrong again."""
        made = self._whole(SeenSamples(range(2**53), sample=sample))
        made["updates"] = updates = [entry for entry in made["updates"] if entry["samples"]]
        if not updates:
            raise errors.SelectionError(
                f"sample {sample}: the run saw none of this index or name; --update 1 shows some"
            )
        was, changes = False, []
        for entry in updates:
            rows = entry["samples"]  # several, if an epoch has the sample more than once
            if was != all(row["true"] == row["predicted"] not in (None, "") for row in rows):
                was = not was
                changes.append(entry["update"])
        return made | {"learned": changes[::2], "forgotten": changes[1::2]}

    def hardest(self, number: int) -> Row:
        """The samples with the highest mean of their losses, each before an update that saw it."""
        made = self._whole(seen := SeenSamples([]))
        rows: list[Row] = [
            {"index": index, "name": seen.name(index), "loss": total / times, "times": int(times)}
            for index, (total, times) in seen.losses.items()
        ]
        if not rows:
            raise errors.DataError(
                f"{self.run.folder.path}: no sample has a loss of its own, as without targets and "
                "with mixed ones; --update 1 shows the samples of an update"
            )
        rows.sort(key=lambda row: (row["loss"] == row["loss"], -row["loss"]))  # NaN first
        return made | {"hardest": rows[:number]}

    def _whole(self, seen: SeenSamples) -> Row:
        """All updates of the run, made again."""
        begin, last = self.run.beginning, max(self.run.last, *self.run.nonfinite, 0)
        if not self._from_start:
            self.run.check_start("a question about the whole run", last - begin)
        # the first and the last update of each stretch between checkpoints, which are all of it
        places = [entry for entry in self.run.saved if begin < entry < last]
        return self._made({begin + 1, last, *places, *(entry + 1 for entry in places)}, seen)

    def _made(self, wanted: Iterable[int], seen: SeenSamples) -> Row:
        """Makes updates again; returns what `seen` saw, and the differences from the run."""
        made = []
        for _, group in groupby(sorted(wanted), self.run.start_of):
            first, *more = group
            last = [first, *more][-1]
            made.append(self.run.updates(first, last, seen, from_start=self._from_start))
        return {
            "run": str(self.run.folder.path), "updates": seen.updates,
            "compared": sum(entry.values + entry.tensors for entry in made),
            "differences": [str(line) for entry in made for line in entry.differences],
        }  # fmt: skip

    def _jumps(self) -> Iterator[Row]:
        """Updates on record as not finite, and how much each logged loss and norm rose.

        A rise is that over the former value, and over the median of the FORMER ones, its unit.
        """
        for at in self.run.nonfinite:
            yield {"what": "not finite", "first": at, "last": at, "rise": inf, "value": None}
        logged = logged_lines.read(self.run.folder.metrics)
        lines = [line for line in logged if (line.split, line.over) == ("train", "window")]
        for place, line in enumerate(lines[1:], 1):
            former, last = lines[max(0, place - FORMER) : place], line.updates
            for name, value in line.values.items():
                if name == "loss" or name.startswith(NORM):
                    known = [entry.values.get(name, value) for entry in former]
                    finite = [*filter(isfinite, known)] or [inf]
                    rise = (value - max(level := median(finite), finite[-1])) / (abs(level) or 1)
                    if isfinite(known[-1]) and not isfinite(value):
                        rise = inf
                    first = last if name.startswith(NORM) else former[-1].updates + 1
                    jump = {"what": name, "first": first, "last": last}
                    if rise > 0:
                        yield jump | {"rise": rise, "value": value}


def _height(update: Row) -> tuple[bool, float]:
    """The loss of an update, or the norm without one; the first that is not finite is highest."""
    value = update["grad_norm"] if update["loss"] is None else update["loss"]
    return not isfinite(value), value

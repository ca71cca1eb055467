"""The outcome of a stretch of updates that was made again, compared with the run's own."""

from collections.abc import Sequence
from dataclasses import dataclass

from andiron.plain import readable
from andiron_lab.ask.bit_comparison import Difference
from andiron_lab.ask import rerun


@dataclass(frozen=True)
class Stretch:
    """Updates that were made again, and how what they gave differs from the run's own."""

    start: int  # completed updates of the checkpoint, or of the beginning of the run
    last: int
    tensors: int = 0  # of the states that were compared; 0 if the run saved none meanwhile
    values: int = 0  # logged ones that were compared
    differences: Sequence[Difference] = ()
    changed: Sequence[str] = ()  # if any differ: what of code, versions, hardware, data changed

    def __str__(self) -> str:
        made = f"updates {self.start + 1} to {self.last}, made again"
        counted = f"{self.tensors:,} tensors and {self.values:,} logged values"
        if not self.differences:
            nothing = "the run logged and saved nothing there to compare them with"
            is_empty = not self.tensors and not self.values
            return f"{made}: {nothing if is_empty else f'{counted} have the bits of the run'}"
        first, number = self.differences[0], len(self.differences)
        there = [one for one in self.differences if one.updates == first.updates]
        beside = {difference.what: "" for difference in there}
        cause = f"likely cause: changed since: {'; '.join(self.changed)}"
        return (
            f"{made}: {counted} compared, {number:,} differences\nfirst: {first}{first.size}\n"
            f"differing there: {readable.joined([*beside])}\n"
            f"{cause if self.changed else rerun.IRREPRODUCIBLE}"
        )

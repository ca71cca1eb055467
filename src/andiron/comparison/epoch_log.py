"""What a run logged for whole epochs and validations, from its metrics.jsonl."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from andiron import errors, files
from andiron.comparison.plain_values import Number, is_number, read_own, reason
from andiron.run_folder import RunFolder

MOST_BYTES = 32 * 2**20  # of metrics.jsonl: 100,000 log points
MOST_METRICS = 10_000  # in a line
MOST_COUNTED = 2**53  # a float holds every whole number below


@dataclass(frozen=True)
class EpochPoint:
    """The values of one split over an epoch, or of a validation, by split and name."""

    updates: int
    epoch: int
    values: Mapping[str, Number]


def epoch_points(folder: RunFolder) -> Iterator[EpochPoint]:
    """What a run logged for whole epochs and validations, in its order; nothing without a file.

    Raises: DataError for a file that is too large, not a file, or damaged.
    """
    name = folder.metrics.name
    try:
        content = read_own(folder.metrics, MOST_BYTES)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{name}: {reason(error)}") from error
    for line in io.BytesIO(content):
        if b'"over": "epoch"' in line and line.endswith(b"\n"):  # the last may be half written
            try:
                yield _point(files.parsed_json(line, MOST_METRICS))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise errors.DataError(f"{name}: a line is damaged ({error})") from error


def _point(plain: dict[str, Any]) -> EpochPoint:
    split, epoch, updates = str(plain.pop("split")), plain.pop("epoch"), plain.pop("updates")
    for count in (epoch, updates):
        if not (is_number(count) and 0 <= count < MOST_COUNTED):
            raise ValueError("epoch and updates should be counts")
    values = {f"{split}/{name}": each for name, each in plain.items() if is_number(each)}
    return EpochPoint(int(updates), int(epoch), values)

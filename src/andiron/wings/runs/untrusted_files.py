"""Plain values in the files of an untrusted run; damage is a line in `problems`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andiron.disk import files
from andiron.plain import improvement
from andiron.plain.plain_values import Number, Plain, is_finite, is_number, or_nan
from andiron.shell.config.leaves import by_dotted_name, leaves
from andiron.shell.config.schema import FROM_PYTHON

MOST_BYTES = 2**20  # of config.json, status.json and summary.json: a hundred times the usual
MOST_DEPTH = 50  # of lists and objects in a file


@dataclass(frozen=True)
class Standing:
    """The best and last value of a metric on a split; no best where its direction is unknown."""

    last: Number
    last_epoch: int | None
    best: Number | None
    epoch_of_best: int | None


def read_object(
    path: Path, problems: list[str], most_values: int = files.VALUES_LIMIT
) -> Plain:
    """The JSON object in a file; empty, and a line in `problems`, if it cannot be read."""
    try:
        if path.is_symlink():
            raise ValueError("is a link")
        value = files.parsed_json(files.read_bytes(path, MOST_BYTES), most_values)
        if not isinstance(value, dict):
            raise ValueError("is not a JSON object")
        _check_depth(value)
        return value
    except FileNotFoundError:
        problems.append(f"{path.name}: is missing")
    except (OSError, ValueError) as error:
        problems.append(f"{path.name}: {files.reason(error)}")
    return {}


def flat_options(config: Mapping[str, object]) -> Plain:
    """`by_dotted_name` without `render`, which does not affect training.

    A component of a run from Python that cannot be made again has its class.
    """
    plain = {name: config[name] for name in config if name not in (FROM_PYTHON, "render")}
    described = {
        ".".join(path[2:-1]): str(value).rpartition(".")[2]
        for path, value in leaves({FROM_PYTHON: config.get(FROM_PYTHON)})
        if path[1:2] == ("not_recorded",) and path[-1] == "class"
    }
    return described | by_dotted_name(plain)


def standings_of(rows: object, problems: list[str]) -> Iterator[tuple[str, Standing]]:
    """The metrics of a summary by split and name, until a malformed one."""
    for row in rows if isinstance(rows, list) else [None]:
        match row:
            case {
                "split": str(split), "metric": str(metric), "last": last, "best": best,
                "last_epoch": int(epoch), "epoch_of_best": int(epoch_of_best),
            } if is_number(last := or_nan(last)) and is_number(best := or_nan(best)):  # fmt: skip
                # NaN, which is not equal to itself: no value is best
                of_best = (best, epoch_of_best) if best == best else (None, None)
                yield f"{split}/{metric}", Standing(last, epoch, *of_best)
            case _:
                problems.append("summary.json: a metric is malformed")
                return


def standing_after(
    before: Standing | None, value: Number, epoch: int, direction: str | None
) -> Standing:
    """The standing after a later value; without a `direction` it has no best."""
    if direction is None:
        return Standing(value, epoch, None, None)
    best = before.best if before and is_finite(before.best) else None
    if before is None or improvement.is_better(value, best, direction):
        return Standing(value, epoch, value, epoch)
    return Standing(value, epoch, before.best, before.epoch_of_best)


def _check_depth(value: Any, most: int = MOST_DEPTH) -> None:
    """Raises: ValueError if the value is nested deeper than `most`."""
    if not most:
        raise ValueError("is nested too deeply")
    inner = value.values() if isinstance(value, dict) else value
    for item in inner if isinstance(value, list | dict) else ():
        _check_depth(item, most - 1)

"""The plain values of a learner's state, with their types and ranges.

The manifests of a shared run folder can be signed again, so a whole checkpoint is data too.

>>> checked({"format": 3})
Traceback (most recent call last):
    ...
andiron.errors.DataError: state.json: format is 3, not 2
"""

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, Strict, TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict

from andiron import errors
from andiron.checkpoint import contents
from andiron.plain import readable
from andiron.ranges import kind

FORMAT: Literal[2] = 2
MOST = 2**53  # of a counter: larger integers are not exact in a float
WORDS = 624  # words of the Mersenne twister's state: the largest position in it


Count = Annotated[int, Field(ge=0, lt=MOST)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Plain = Annotated[Any, kind("a list or an object", lambda v: isinstance(v, list | dict), Any)]
AS_LIST = Strict(False)  # a tuple that is a list in JSON


class Random(TypedDict):
    """The state of Python's and NumPy's generators; NumPy does not check its position."""

    python: Annotated[tuple[int, str, Finite | None], AS_LIST]
    numpy: Annotated[tuple[str, Annotated[int, Field(ge=0, le=WORDS)], int, Finite], AS_LIST]


class Observed(TypedDict):
    """The state of an early stopping rule."""

    of: list[str]
    best: Finite | None
    epoch_of_best: Count
    update_of_best: Count
    is_best: bool
    value_at_gain: Finite | None
    since_gain: Count
    last: float | Literal["nan", "inf", "-inf"] | None
    last_update: Count


class Owner(TypedDict):
    """An optimizer and its parameters."""

    optimizer: str | None
    parameters: list[str]


class Tally(TypedDict):
    """The sums of the metrics; see `metric_sums`."""

    metrics: list[str]
    window: list[Plain]
    epoch: list[Plain | None]
    slices: NotRequired[list[list[Count]]]  # of each batch, those with an entry in the window
    given: NotRequired[bool]  # whether the epoch's numbers are recorded, where a run ended in it


class Standing(TypedDict):
    """The best and last value of a metric; NaN where the run does not check it."""

    best: float
    epoch_of_best: Count
    last: float
    last_epoch: Count


Values = dict[str, dict[str, float]]  # by split and metric


class Logged(TypedDict):
    """The state of the metric log."""

    tally: Tally
    window: Annotated[tuple[Count, Count], AS_LIST]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    history: dict[str, dict[str, Standing]]
    latest: Values
    writers: dict[str, Any]


class LossScale(TypedDict):
    """The loss scale of fp16."""

    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    updates_since: Count


class LeftOut(TypedDict):
    """The updates skipped as non-finite."""

    skipped: Count
    precision: LossScale


class Validation(TypedDict):
    """The update of the last validation."""

    last_update: Annotated[int, Field(ge=-1, lt=MOST)]


class Parts(TypedDict):
    """The parts whose state holds plain values only."""

    nonfinite: LeftOut
    validation: Validation
    sets: NotRequired[dict[str, Validation]]  # further validation sets


class Kept(TypedDict):
    """A checkpoint that was kept when this one was written."""

    name: str
    updates: Count
    values: Values


class Fingerprint(TypedDict):
    """The gradients of an update, for comparison."""

    loss: str | None
    norms: dict[str, str]
    sha256: str


class Step(TypedDict):
    """The place of an update with non-finite values."""

    update: Count
    epoch: Count
    first_batch: Count
    num_batches: Count
    samples: Plain | None
    gradients: Fingerprint


class State(TypedDict):
    """The state of a learner, beside its tensors."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    format: Literal[2]
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)]
    updates: Count
    epoch: Count
    batch: Count
    batch_size: NotRequired[Count | None]  # of the batches counted by `batch`
    owners: dict[str, Owner]
    frozen: list[str]
    waiting: NotRequired[list[str]]  # the frozen groups that will thaw
    stateless: list[str]
    schedules: list[Any]
    early_stopping: dict[str, Observed]
    averages: dict[str, Count]
    random: Random
    metric_log: Logged
    parts: Parts
    observers: NotRequired[dict[str, Any]]
    checkpoints: NotRequired[list[Kept]]  # the key is KEPT_WITH_IT
    step: NotRequired[Step]


def checked(state: Any, file: str = contents.STATE) -> dict[str, Any]:
    """The state, after its values' types and ranges are checked.

    Raises: DataError naming the file, the key, the value and what is allowed.
    """
    try:
        _adapter().validate_python(state)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"])
        if first["type"] == "missing":
            raise errors.DataError(f"{file}: {where[1:]!r} is missing") from error
        allowed = "known" if first["type"] == "extra_forbidden" else first["msg"]
        allowed = allowed.removeprefix("Input should be ")
        raise wrong(file, where[1:], first["input"], allowed) from error
    return state


def wrong(file: str, where: str, value: Any, allowed: str) -> errors.DataError:
    """The error of a value that is not allowed at a place."""
    shown = readable.shortened(repr(value))
    return errors.DataError(f"{file}: {where or 'it'} is {shown}, not {allowed}")


@cache
def _adapter() -> Any:
    return TypeAdapter(State)

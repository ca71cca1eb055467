"""The types of option values: a name for each range, used in the annotations of constructors.

The annotated signature of a constructor is the schema of its node in the configuration. The
configuration is checked before torch is imported, so nothing here imports torch.
"""

import inspect
import re
from collections.abc import Callable
from functools import cache, wraps
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import (
    BeforeValidator, Field, PlainValidator, TypeAdapter, ValidationError, with_config,
)  # fmt: skip
from pydantic_core import PydanticCustomError
from typing_extensions import Required, TypedDict

from andiron.plain.cadence import DURATION, EVERY
from andiron.plain.plain_values import Plain

Class = TypeVar("Class", bound=type)

MOST_TRACED = 1000  # updates: a trace takes some 100 KB of memory for each
MOST_TRIALS = 10_000  # of a search: optuna goes through all of them for each new one
MOST = 10**12  # of any counter: 12 days at a million updates a second


def _in_64_bits(value: Any) -> Any:
    """A whole number in JSON that fits 64 bits."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise PydanticCustomError("kind", "Input should be a number of 64 bits, or one like 1e30")
    return value


In64Bits = BeforeValidator(_in_64_bits)
Number = Annotated[float, Field(allow_inf_nan=False), In64Bits]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), In64Bits]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), In64Bits]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Proportion = Annotated[float, Field(gt=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Trials = Annotated[int, Field(ge=1, le=MOST_TRIALS)]
Index = Annotated[int, Field(ge=0, le=MOST)]
Layers = Annotated[int, Field(ge=1, le=10_000)]  # ten times the deepest: arXiv:2203.00555
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Validation = Proportion | Literal["test"]  # fraction of the training data, or the test set itself
Direction = Literal["lowest", "highest"]
Betas = tuple[Fraction, Fraction]  # of running means
Factor = NonNegative | tuple[NonNegative, NonNegative]  # a spread around 1, or from one to another
AdjustLr = Literal["original", "match_rms_adamw", "spectral_unclamped"]  # of torch.optim.Muon
Average = Literal["micro", "macro", "weighted", "none"]  # of a metric over classes

EPOCHS = re.compile(r"(\d+(?:\.\d+)?)epochs?")  # 2epochs, 0.5epochs, 1epoch
DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")  # can be part of a folder's name
SET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")  # valid-ema is an average on valid
OTHER_SETS = ("train", "valid", "test", "all", "hparams")  # the last is a TensorBoard folder
DOTTED_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")  # torch.nn.functional.relu


def checked(owner: Class) -> Class:
    """`owner`, whose constructor refuses values outside the ranges in its annotations.

    Configurations are checked against the same annotations; this is for calls from Python.

    >>> @checked
    ... class Decayed:
    ...     def __init__(self, decay: Decay = 1.0): ...
    >>> Decayed(1.5)
    Traceback (most recent call last):
    ValueError: decay=1.5: should be less than or equal to 1 (Decayed)

    Raises: ValueError that begins with the argument and its value.
    """
    constructor: Any = owner.__init__  # type: ignore[misc]
    signature = inspect.signature(owner)

    @cache  # on first use: pydantic takes up to some milliseconds for one
    def adapter(name: str) -> Any:
        kinds = get_type_hints(constructor, include_extras=True)
        return TypeAdapter(kinds[name], config={"strict": True})

    @wraps(constructor)
    def check_and_construct(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{owner.__name__}: {error}") from None
        for name, value in bound.arguments.items():
            try:
                bound.arguments[name] = adapter(name).validate_python(value)
            except ValidationError as error:
                problem = f"{name}={value}: should be {allowed_values(error)} ({owner.__name__})"
                raise ValueError(problem) from None
        constructor(self, *bound.args, **bound.kwargs)

    owner.__init__ = check_and_construct  # type: ignore[misc]
    return owner


def allowed_values(error: ValidationError) -> str:
    """The values that an option takes, of pydantic's messages for each member of a union."""
    messages = " or ".join(dict.fromkeys(problem["msg"] for problem in error.errors()))
    # pydantic's word for a list is JSON's
    allowed = messages.replace("a valid array", "a list, in brackets: [...]")
    return allowed.replace("Input should be ", "")


def kind(allowed: str, is_allowed: Callable[[Any], Any], written_as: Any) -> PlainValidator:
    """Accepts the values for which `is_allowed`; `written_as` is their type for editors."""

    def accepted(value: Any) -> Any:
        if not is_allowed(value):
            raise PydanticCustomError("kind", "Input should be {allowed}", {"allowed": allowed})
        return value

    described = Annotated[written_as, Field(description=allowed)]
    return PlainValidator(accepted, json_schema_input_type=described)


def _text(allowed: str, pattern: re.Pattern[str]) -> PlainValidator:
    """Accepts the texts that match the whole pattern."""
    return kind(allowed, lambda value: _is_text(value, pattern), str)


def is_set_name(value: Any) -> bool:
    """Whether a further validation set may have this name."""
    return _is_text(value, SET_NAME) and value not in OTHER_SETS


def _is_count(value: Any) -> bool:
    return 1 <= _whole(value) <= MOST


def _whole(value: Any) -> int:
    """The value if it is a whole number, else -1."""
    return value if type(value) is int else -1


def _is_text(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _check_most(value: Any) -> None:
    """Refuses a number of updates, or a number in a text such as 2epochs, above MOST."""
    match = EVERY.fullmatch(value) if isinstance(value, str) else None
    number = float(match[1]) if match else value
    if (match or type(value) is int) and number > MOST:
        raise PydanticCustomError("kind", f"Input should be less than or equal to {MOST}")


def _updates(least: Literal[0, 1]) -> Any:
    """A number of updates, or of epochs, converted to updates when the run is built."""

    def is_length(value: Any) -> bool:
        if type(value) is int and value < least:
            raise PydanticCustomError("kind", f"Input should be greater than or equal to {least}")
        _check_most(value)
        epochs = EPOCHS.fullmatch(value) if isinstance(value, str) else None
        is_zero = epochs and float(epochs[1]) == 0
        return not (is_zero and least) if epochs else least <= _whole(value) <= MOST

    def in_updates(value: Any, info: Any) -> Any:
        # a configuration is checked as JSON
        if info.mode == "python" and not least <= _whole(value) <= MOST:
            raise PydanticCustomError(
                "kind",
                f"Input should be {least} or more; give it as a whole number of updates, "
                "as epochs only in a configuration",
            )
        return value

    allowed = "a number of updates (100) or of epochs (2epochs, 0.5epochs)"
    written_as = (Count if least else Index) | str
    return Annotated[Any, kind(allowed, is_length, written_as), BeforeValidator(in_updates)]


def _is_cadence(value: Any) -> bool:
    _check_most(value)
    if isinstance(value, dict) and value.keys() <= {"updates", "epochs", "minutes"}:
        numbers = [entry for entry in value.values() if entry is not None]
        return bool(numbers) and all(
            type(number) in (int, float) and 0 < number <= MOST for number in numbers
        )
    return _is_count(value) or _is_text(value, EVERY)


def _is_traced(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"updates"}:
        return False
    updates: Any = value["updates"]
    is_pair = isinstance(updates, list) and len(updates) == 2 and all(map(_is_count, updates))
    return is_pair and 0 <= updates[1] - updates[0] < MOST_TRACED


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and "_target_" in value  # its arguments are checked separately


def _are_nodes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_node, value))


def _is_split(value: Any) -> bool:
    if not isinstance(value, dict):
        return value in ("random", "stratified", "in_order")
    names = {*value} - {"valid", "test"} if "by" in value else {*value}
    return names in ({"by"}, {"group"}, {"gap"}) and _whole(value.get("gap", 0)) >= 0


Horizon = _updates(1)
Span = _updates(0)  # 0: leaves a phase out, such as a warm-up
Traced = Annotated[Plain, kind(
    f"{{updates: [first, last]}}, counted from 1, at most {MOST_TRACED:,} of them",
    _is_traced, dict[Literal["updates"], list[Count]],
)]  # fmt: skip
Device = Annotated[Any, _text("auto, cpu, mps, cuda or cuda:<index>", DEVICE)]
RunName = Annotated[Any, _text("up to 64 of A-Z a-z 0-9 _.+- (the first not .+-)", RUN_NAME)]
SET_NAMES = (
    "a name of up to 64 letters, digits and _, starting with a letter, "
    f"not {', '.join(OTHER_SETS)}"
)
SetName = Annotated[Any, kind(SET_NAMES, is_set_name, str)]
SetFiles = dict[SetName, str] | None  # further validation sets: files or folders by name
Every = Annotated[  # see andiron.plain.cadence.Cadence
    int | str | Plain,
    kind(
        "a number of updates (500), epochs (2epochs) or minutes (10minutes), "
        "or {updates: 500, minutes: 10}",
        _is_cadence,
        Count | str | dict[Literal["updates", "epochs", "minutes"], Positive],
    ),
]
_Weights = TypedDict(
    "_Weights",
    {"path": Required[str], "rename": dict[str, str], "except": list[str], "partial": bool,
     "other_names": bool},
    total=False,
)  # fmt: skip
with_config(extra="forbid", strict=True)(_Weights)


@with_config(extra="forbid", strict=True)
class Resizing(TypedDict, total=False):
    """How pictures are resized before the centre is cropped."""

    crop: Annotated[float, Field(ge=0.25, le=1)]  # size / shorter side before; by default 1
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"]  # by default bilinear
    squash: bool  # both sides to the same length, whatever the shape


def _typed(allowed: str, written_as: Any) -> PlainValidator:
    """Accepts the values of a type."""

    def is_allowed(value: Any) -> bool:
        return TypeAdapter(written_as).validator.isinstance_python(value)

    return kind(allowed, is_allowed, written_as)


StartFrom = Annotated[str | Plain, _typed(
    "a path, or {path: x, rename: {OLD: NEW}, except: [REGEX], partial: true, other_names: true}",
    str | _Weights,
)]  # fmt: skip
RESIZING = "{crop: 0.875, interpolation: bicubic, squash: true}"
ResizingOption = Annotated[Plain, _typed(RESIZING, Resizing)]
SplitOption = Annotated[str | Plain, kind(  # see data.splitting.divided_rows.Division
    "random, stratified, in_order, {gap: ROWS}, {group: COLUMN}, or {by: COLUMN, valid: [VALUE], "
    "test: [VALUE]}", _is_split, str | Plain,
)]  # fmt: skip
Duration = Annotated[
    Any, _text("a time with its unit, such as 90s, 30min, 8hours or 2days", DURATION)
]
# an object that is built from its own `_target_`, or several
Node = Annotated[Any, kind("a _target_ and its arguments", _is_node, Plain)]
Nodes = Annotated[
    Any,
    kind("a list of nodes, each a _target_ and its arguments", _are_nodes, list[Plain]),
]
NodeOrNodes = Annotated[Any, kind(
    "one node or a list of nodes, each a _target_ and its arguments",
    lambda value: _is_node(value) or _are_nodes(value), Plain | list[Plain],
)]  # fmt: skip
Function = Annotated[Any, kind(
    "a _target_ and its arguments, or a function's dotted name",
    lambda value: _is_text(value, DOTTED_NAME) or _is_node(value), str | Plain,
)]  # fmt: skip

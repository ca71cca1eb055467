"""The data set that a run's data.json describes, read back; the file is untrusted.

>>> from andiron.data import digits
>>> from andiron.data.splitting import described
>>> from_plain("digits", described.as_plain(digits(valid=0.1, split_seed=0))).batcher
ImageBatcher(mean=0.3053, std=0.376, scale=16.0, channels_last=False)
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from andiron import errors
from andiron.data.dataset import Batcher
from andiron.data.splitting.described import BATCHERS, Described, PREPROCESSING
from andiron.data.splitting.standardisation import FLOAT32
from andiron.plain.plain_values import Named, Plain
from andiron.ranges import Number, Resizing

MOST_DIMENSIONS = 8  # of a sample
SMALLEST = FLOAT32.smallest_normal * FLOAT32.eps  # a standard deviation that float32 can hold

Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class _Preprocessing:
    """The recorded preprocessing, in the types that `as_plain` writes."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    batcher: Plain
    evaluation_batch_size: Positive
    input_dtype: str | None
    class_counts: list[Annotated[int, Field(ge=0)]] | None


@with_config(extra="forbid")
class Tokenizer(TypedDict):
    """The files of a tokenizer of transformers in a folder, with the SHA-256 of each."""

    folder: str
    files: dict[str, str]


class _Facts(TypedDict, total=False):
    """The facts that Andiron's data sets give; a user's own facts are not checked."""

    input_shape: Annotated[tuple[Positive, ...], Field(max_length=MOST_DIMENSIONS)]
    num_classes: Positive
    num_outputs: Positive
    vocabulary_size: Positive
    context_length: Positive
    class_names: list[str]
    columns: list[str]
    target_columns: list[str]
    vocabulary: list[str]
    bytes_per_token: list[Positive]
    resizing: Resizing
    tokenizer: Tokenizer
    target_mean: list[Number]
    target_std: list[Number]
    target_offset: list[Number]


def from_plain(name: str, plain: Named) -> Described | None:
    """The data set that a data.json describes; None if it has no preprocessing.

    Raises: DataError for values that `as_plain` never writes.
    """
    facts = {key: value for key, value in plain.items() if key != PREPROCESSING}
    if PREPROCESSING not in plain:
        return None
    try:
        given = {fact: value for fact, value in facts.items() if value is not None}
        typed = _validated(_Facts, given)
        names, number = typed.get("class_names"), typed.get("num_classes")
        if names and number not in (None, len(names)):
            raise ValueError(f"class_names has {len(names)} names for {number} classes")
        stored = _validated(_Preprocessing, plain[PREPROCESSING])
        settings = dict(stored.batcher)
        kind = BATCHERS[settings.pop("kind")]
        if settings.keys() != {field.name for field in dataclasses.fields(kind)}:
            raise ValueError(f"{kind.__name__} has not the settings {', '.join(settings)}")
        batcher = _validated(kind, settings)
        _check_numbers(batcher, typed.get("input_shape"))
    except (ValueError, KeyError, TypeError) as error:  # pydantic's is a ValueError
        why = errors.one_line(error)[:200]
        raise errors.DataError(
            f"{name}: is malformed ({why}); restore it from a copy"
        ) from error
    if "input_shape" in typed:
        facts["input_shape"] = typed["input_shape"]  # a tuple, as data sets give it
    return Described(
        name, batcher, facts, stored.evaluation_batch_size, stored.input_dtype, stored.class_counts
    )


def _check_numbers(batcher: Batcher, shape: tuple[int, ...] | None) -> None:
    """Refuses numbers that float32 inputs cannot be divided by or centred on, or too many."""
    channels = shape[0] if shape else 1
    for name, lowest in {"mean": -FLOAT32.max, "std": SMALLEST, "scale": SMALLEST}.items():
        statistic = vars(batcher).get(name, 1.0)
        numbers = statistic if isinstance(statistic, tuple) else (statistic,)
        if len(numbers) not in (1, channels):
            raise ValueError(f"{name} has {len(numbers)} numbers for {channels} channels")
        for place, number in enumerate(numbers):
            if not lowest <= number <= FLOAT32.max:
                raise ValueError(
                    f"number {place} of {name} is {number}, not from {lowest:.1e} to "
                    f"{FLOAT32.max:.1e}"
                )


def _validated(kind: Any, plain: object) -> Any:
    """Validates plain values as a dataclass; lists become tuples where its types say so."""
    return TypeAdapter(kind).validate_json(json.dumps(plain), strict=True)

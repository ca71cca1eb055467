"""Data made of other data: a fold, a balanced draw, a part."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from andiron.config.nodes.kinds import Count, Seed, describes


def _data(value: Any) -> dict[str, Any]:
    if (
        isinstance(value, dict) and "_target_" in value
    ):  # its arguments are checked as those of any node
        return value
    raise PydanticCustomError("data", "Input should be a data set: a _target_ and its arguments")


Data = Annotated[dict[str, Any], PlainValidator(_data)]


@describes("andiron.data.kfold")
class Kfold:
    data: Data
    fold: Annotated[int, Field(ge=0)]
    num_folds: Annotated[int, Field(ge=2)]
    split_seed: Seed


@describes("andiron.data.balanced")
class Balanced:
    data: Data
    size: Count | None
    seed: Seed


@describes("andiron.data.partial")
class Partial:
    data: Data
    fraction: Annotated[float, Field(gt=0, le=1)]
    seed: Seed

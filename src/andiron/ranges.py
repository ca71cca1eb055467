"""The kinds of values that options take: a name for each range, used in the annotations of constructors.

The annotated signature of a constructor is the schema of its node in the configuration. The
configuration is checked before torch is imported, so nothing here imports torch.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Proportion = Annotated[float, Field(gt=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Index = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Validation = Proportion | Literal["test"]  # part of the training data, or the test set itself
Direction = Literal["lowest", "highest"]
Average = Literal["micro", "macro", "weighted", "none"]  # of a metric over classes

EPOCHS = re.compile(r"(?=.*[1-9])(\d+(?:\.\d+)?)epochs?")  # 2epochs, 0.5epochs, 1epoch; never 0


def _horizon(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise PydanticCustomError("horizon", "Input should be greater than or equal to 1")
        return value
    if isinstance(value, str) and EPOCHS.fullmatch(value):
        return value
    allowed = "Input should be a number of updates (100) or of epochs (2epochs, 0.5epochs)"
    raise PydanticCustomError("horizon", allowed)


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and "_target_" in value


def _node(value: Any) -> dict[str, Any]:
    if _is_node(value):  # its arguments are checked as those of any node
        return dict(value)
    raise PydanticCustomError("node", "Input should be a _target_ and its arguments")


def _nodes(value: Any) -> list[Any]:
    if isinstance(value, list) and value and all(map(_is_node, value)):
        return value
    raise PydanticCustomError(
        "node", "Input should be a list of nodes, each a _target_ and its arguments"
    )


def _node_or_nodes(value: Any) -> Any:
    if _is_node(value) or (isinstance(value, list) and value and all(map(_is_node, value))):
        return value
    raise PydanticCustomError(
        "node", "Input should be one node or a list of nodes, each a _target_ and its arguments"
    )


Horizon = Annotated[
    Any, PlainValidator(_horizon)
]  # updates, or epochs that become updates when the run is built
Node = Annotated[Any, PlainValidator(_node)]  # an object built from a `_target_` of its own
Nodes = Annotated[Any, PlainValidator(_nodes)]
NodeOrNodes = Annotated[Any, PlainValidator(_node_or_nodes)]

EVERY = re.compile(r"(?=.*[1-9])(\d+(?:\.\d+)?)(epoch|minute)s?")  # 2epochs, 0.5epochs, 10minutes


def _every(value: Any) -> Any:
    if isinstance(value, dict) and value and set(value) <= {"updates", "epochs", "minutes"}:
        numbers = [each for each in value.values() if each is not None]
        if numbers and all(_is_number(each) and each > 0 for each in numbers):
            return value
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    elif isinstance(value, str) and EVERY.fullmatch(value):
        return value
    allowed = "a number of updates (500), epochs (2epochs) or minutes (10minutes), or {updates: 500, minutes: 10}"
    raise PydanticCustomError("every", f"Input should be {allowed}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Every = Annotated[Any, PlainValidator(_every)]  # a cadence: see andiron.cadence.Cadence

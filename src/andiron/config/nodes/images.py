"""Data sets of images, and what is done to images at random."""

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from andiron.config.nodes.kinds import Count, NonNegative, Positive, Seed, Validation, describes

Proportion = Annotated[float, Field(gt=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Factor = NonNegative | tuple[NonNegative, NonNegative]


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and "_target_" in value


def _transforms(value: Any) -> Any:
    if _is_node(value) or (isinstance(value, list) and value and all(map(_is_node, value))):
        return value
    raise PydanticCustomError(
        "transform",
        "Input should be a transform, or a list of them, each a _target_ and its arguments",
    )


Transforms = Annotated[Any, PlainValidator(_transforms)]


@describes("andiron.data.cifar10")
class Cifar10:
    root: str
    valid: Validation
    split_seed: Seed


@describes("andiron.data.cifar100")
class Cifar100:
    root: str
    valid: Validation
    split_seed: Seed


@describes("andiron.data.image_folder")
class ImageFolder:
    path: str
    size: Count
    channels: Literal[1, 3]
    valid: Validation
    test: Proportion
    split_seed: Seed
    decoded: Literal["workers", "once"]
    cache: str | None


@describes("andiron.data.Shift")
class Shift:
    pixels: Annotated[int, Field(ge=0)]


@describes("andiron.data.Crop")
class Crop:
    padding: Annotated[int, Field(ge=0)]
    border: Literal["zero", "mirror"] = "zero"


@describes("andiron.data.Flip")
class Flip:
    probability: Probability = 0.5
    horizontal: bool = True


@describes("andiron.data.Rotate")
class Rotate:
    degrees: Annotated[float, Field(ge=0, le=180)]


@describes("andiron.data.Cutout")
class Cutout:
    size: Count
    fill: Annotated[int, Field(ge=0)] = 0


@describes("andiron.data.Mixup")
class Mixup:
    alpha: Positive


@describes("andiron.data.Torchvision")
class Torchvision:
    transform: Transforms


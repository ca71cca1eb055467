"""Data sets from files of one's own, the measurements that are shipped, and samples that are made up."""

from typing import Annotated, Literal

from pydantic import Field

from andiron.config.nodes.kinds import Count, Positive, Seed, Validation, describes

Part = Annotated[float, Field(gt=0, lt=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


@describes("andiron.data.diabetes")
class Diabetes:
    valid: Validation
    split_seed: Seed


@describes("andiron.data.csv")
class Csv:
    path: str
    target: str | Names
    features: Names | None = None
    kind: Literal["classification", "regression"] | None = None
    valid: Validation
    test: Part = 0.1
    split_seed: Seed
    standardise: bool = True
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","


@describes("andiron.data.safetensors")
class Safetensors:
    path: str
    inputs: str = "inputs"
    targets: str = "targets"
    valid: Validation
    test: Part = 0.1
    split_seed: Seed
    in_memory: Literal["auto"] | bool = "auto"
    mean: Number | tuple[Number, ...] | None = None
    std: Positive | tuple[Positive, ...] | None = None


@describes("andiron.data.text")
class Text:
    path: str
    level: Literal["bytes", "characters"] = "bytes"
    context_length: Count
    stride: Count | None = None
    valid: Validation
    test: Part = 0.1
    cache: str | None = None


@describes("andiron.data.synthetic")
class Synthetic:
    num_samples: Count
    input_shape: tuple[Count, ...]
    num_classes: Annotated[int, Field(ge=2)]
    separation: Positive = 8.0
    dtype: Literal["uint8", "float32"] = "uint8"
    seed: Seed = 0
    valid: Validation
    test: Part = 0.1
    split_seed: Seed

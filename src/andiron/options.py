"""The options of the learner: their types, ranges, defaults, meanings and resume policies.

`Train`, the schema of the configuration, contains them; `Learner` takes them; the options block of
conf/train.yaml and docs/configuration.md are generated from them.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from andiron.ranges import Count, Duration, Every, Positive, Seed, Traced, checked

Resume = Literal[
    "free", "ask", "never"
]  # a resumed run may change it: always; only if named in resume_allow; never
Clip = (
    Positive
    | Annotated[
        dict[Literal["global_norm", "norm", "value"], Positive], Field(min_length=1, max_length=1)
    ]
)


def option(
    default: object,
    meaning: str,
    *,
    resume: Resume = "ask",
    hparam: bool | Literal["if set"] = False
) -> Any:
    """A dataclass field with its meaning, its resume policy, and whether it is a hyperparameter.

    `hparam="if set"` counts it if it differs from its default.
    """
    metadata = {"meaning": meaning, "resume": resume, "hparam": hparam}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@checked
@dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """Training options as plain values."""

    num_epochs: Count | None = option(
        10,
        "length of the run in epochs; null if num_updates is set",
        resume="free",
        hparam=True,
    )
    num_updates: Count | None = option(
        None, "length of the run in updates, instead of num_epochs", resume="free", hparam="if set"
    )
    max_time: Duration | None = option(
        None,
        "longest training of this process, such as 8hours: the run then ends, validated and tested",
        resume="free",
    )
    seed: Seed = option(
        42, "seed of initialisation, data order, augmentation and dropout", hparam=True
    )
    grads_accumulation: Count = option(
        1, "batches per update; their gradients are averaged", hparam="if set"
    )
    clip: Clip | None = option(
        None,
        "maximum global gradient norm; or {norm: 1.0} for each tensor, or {value: 0.1}",
        hparam="if set",
    )
    sam: Positive | None = option(
        None,
        "rho of sharpness-aware minimisation (SAM), such as 0.05; with any optimizer; both of its "
        "passes update the running statistics of BatchNorm",
        hparam="if set",
    )
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = option(
        "fp32",
        "precision of the forward pass; fp16 scales the loss of each batch, whatever their number "
        "in an update",
        hparam="if set",
    )
    graph: bool | Literal["auto"] = option(
        False,
        "a training step as one CUDA graph, checks for NaN read late; auto: where that can be",
        resume="free",
    )
    on_nonfinite: Literal["stop", "skip", "ignore"] = option(
        "stop",
        "reaction to an update with a NaN or infinity, which is not applied",
    )
    log_every: Every = option(
        20, "log every N updates; or 1epochs, 0.5minutes", resume="free"
    )
    validate_every: Every = option(
        "1epochs",
        "validate every 1epochs, 10minutes, or N updates",
        hparam="if set",
    )
    validate_first: bool = option(False, "also validate before the first update", resume="free")
    histograms: bool | str = option(
        False,
        "log histograms of weights and gradients: true, or a regex of names",
        resume="free",
    )
    profile: Traced | None = option(
        None, "updates to trace with torch.profiler: {updates: [10, 20]}", resume="free"
    )
    test_weights: Literal["last", "best"] = option(
        "last", "test the weights of the last update or of the best checkpoint", resume="free"
    )

    def __post_init__(self) -> None:
        """Lets `num_updates` win over the default of `num_epochs`."""
        if self.num_updates is not None and self.num_epochs == type(self).num_epochs:
            object.__setattr__(self, "num_epochs", None)

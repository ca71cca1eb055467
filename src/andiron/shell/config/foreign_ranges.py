"""The option ranges of other libraries' classes, whose constructors have none, and their packages.

Also of Andiron's optimizers, which have torch's constructors.

A listed class takes only these arguments from a configuration. An unlisted class takes any argument
of its constructor, which is checked when the object is built.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from andiron.ranges import (
    Count, Fraction, Index, NonNegative, Number, Positive, Probability, Proportion,
)  # fmt: skip

Betas = tuple[Fraction, Fraction]
Factor = NonNegative | tuple[NonNegative, NonNegative]
DECAY: dict[str, Any] = {"weight_decay": NonNegative}
ADAM = {"betas": Betas, "eps": NonNegative, **DECAY}

FOREIGN_RANGES: dict[str, dict[str, Any]] = {
    "torch.optim.SGD": {
        "momentum": NonNegative, "dampening": NonNegative, **DECAY, "nesterov": bool,
    },
    "torch.optim.Adam": {**ADAM, "amsgrad": bool},
    "torch.optim.AdamW": {**ADAM, "amsgrad": bool},
    "torch.optim.RMSprop": {
        "alpha": Fraction, "eps": NonNegative, **DECAY, "momentum": NonNegative, "centered": bool,
    },
    "torch.optim.Adagrad": {
        "lr_decay": NonNegative, **DECAY, "initial_accumulator_value": NonNegative,
        "eps": NonNegative,
    },
    "torch.optim.NAdam": {**ADAM, "momentum_decay": NonNegative},
    "torch.optim.RAdam": ADAM,
    "torch.optim.Adamax": ADAM,
    "torch.optim.Adadelta": {"rho": Probability, "eps": NonNegative, **DECAY},
    "torch.optim.ASGD": {
        "lambd": NonNegative, "alpha": NonNegative, "t0": NonNegative, **DECAY,
    },
    "torch.optim.Adafactor": {
        "beta2_decay": Annotated[float, Field(le=0, allow_inf_nan=False)],
        "eps": tuple[NonNegative | None, NonNegative],
        "d": Annotated[float, Field(ge=1, allow_inf_nan=False)],
        **DECAY,
    },
    "torch.optim.LBFGS": {
        "max_iter": Count, "max_eval": Count | None, "tolerance_grad": NonNegative,
        "tolerance_change": NonNegative, "history_size": Count,
        "line_search_fn": Literal["strong_wolfe"] | None,
    },
    "torch.optim.Muon": {
        **DECAY, "momentum": NonNegative, "nesterov": bool,
        "ns_coefficients": tuple[float, float, float], "eps": Positive,
        "ns_steps": Annotated[int, Field(ge=1, lt=100)],
        "adjust_lr_fn": Literal["original", "match_rms_adamw", "spectral_unclamped"] | None,
    },
    "andiron.optim.Adan": {
        "betas": tuple[Fraction, Fraction, Fraction], "eps": NonNegative, **DECAY,
    },
    "andiron.optim.Lamb": {**ADAM, "always_adapt": bool},
    "lion_pytorch.Lion": {"betas": Betas, **DECAY},
    "schedulefree.AdamWScheduleFree": {
        "betas": tuple[Proportion, Fraction],  # the optimizer divides by the first
        "eps": NonNegative, **DECAY, "warmup_steps": Index, "r": NonNegative,
        "weight_lr_power": NonNegative,
    },
    "pytorch_optimizer.SOAP": {
        **ADAM, "shampoo_beta": Fraction | None, "precondition_frequency": Count,
        "max_precondition_dim": Count, "merge_dims": bool, "precondition_1d": bool,
        "correct_bias": bool, "normalize_gradient": bool,
    },
    "pytorch_optimizer.Kron": {
        "momentum": Fraction, **DECAY, "weight_decouple": bool,
        "pre_conditioner_update_probability": Probability | None, "max_size_triangular": Count,
        "min_ndim_triangular": Count,
        "memory_save_mode": Literal["one_diag", "smart_one_diag", "all_diag"] | None,
        "momentum_into_precondition_update": bool, "balance_prob": Probability,
    },
    "torch.nn.HuberLoss": {"delta": Positive},
    "torch.nn.L1Loss": {},
    "torchvision.transforms.v2.ColorJitter": {
        "brightness": Factor | None, "contrast": Factor | None, "saturation": Factor | None,
        "hue": Annotated[float, Field(ge=0, le=0.5)] | tuple[Number, Number] | None,
    },
}  # fmt: skip

# modules that a class needs besides its own package
ALSO_NEEDED = {
    # else torch.einsum forms outer products of whole preconditioners: 64 GiB for a layer of 256x512
    "pytorch_optimizer.Kron": "opt_einsum",
}

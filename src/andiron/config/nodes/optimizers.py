"""Optimizers: everything but `lr`, which is no option of theirs here."""

from typing import Annotated, Literal

from pydantic import Field

from andiron.config.nodes.kinds import Count, Fraction, NonNegative, Positive, describes


@describes("torch.optim.SGD")
class SGD:
    momentum: NonNegative = 0.0
    dampening: NonNegative = 0.0
    weight_decay: NonNegative = 0.0
    nesterov: bool = False


@describes("torch.optim.Adam")
class Adam:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0.0
    amsgrad: bool = False


@describes("torch.optim.AdamW")
class AdamW:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 1e-2
    amsgrad: bool = False


@describes("torch.optim.RMSprop")
class RMSprop:
    alpha: Fraction = 0.99
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0.0
    momentum: NonNegative = 0.0
    centered: bool = False


@describes("torch.optim.Adagrad")
class Adagrad:
    lr_decay: NonNegative = 0.0
    weight_decay: NonNegative = 0.0
    initial_accumulator_value: NonNegative = 0.0
    eps: NonNegative = 1e-10


@describes("torch.optim.NAdam")
class NAdam:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0
    momentum_decay: NonNegative = 0.004


@describes("torch.optim.RAdam")
class RAdam:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0


@describes("torch.optim.Adamax")
class Adamax:
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0


@describes("torch.optim.Adadelta")
class Adadelta:
    rho: Annotated[float, Field(ge=0, le=1)] = 0.9
    eps: NonNegative = 1e-6
    weight_decay: NonNegative = 0


@describes("torch.optim.ASGD")
class ASGD:
    lambd: NonNegative = 1e-4
    alpha: NonNegative = 0.75
    t0: NonNegative = 1e6
    weight_decay: NonNegative = 0


@describes("torch.optim.Adafactor")
class Adafactor:
    beta2_decay: Annotated[float, Field(le=0, allow_inf_nan=False)] = -0.8
    eps: tuple[NonNegative | None, NonNegative] = (None, 1e-3)
    d: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    weight_decay: NonNegative = 0.0


@describes("torch.optim.LBFGS")
class LBFGS:
    max_iter: Count = 20
    max_eval: Count | None = None
    tolerance_grad: NonNegative = 1e-7
    tolerance_change: NonNegative = 1e-9
    history_size: Count = 100
    line_search_fn: Literal["strong_wolfe"] | None = None


@describes("torch.optim.Muon")
class Muon:
    weight_decay: NonNegative = 0.1
    momentum: NonNegative = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    eps: Positive = 1e-7
    ns_steps: Annotated[int, Field(ge=1, lt=100)] = 5
    adjust_lr_fn: Literal["original", "match_rms_adamw", "spectral_unclamped"] | None = None


@describes("lion_pytorch.Lion")
class Lion:
    betas: tuple[Fraction, Fraction] = (0.9, 0.99)
    weight_decay: NonNegative = 0.0


@describes("schedulefree.AdamWScheduleFree")
class AdamWScheduleFree:
    betas: tuple[Annotated[float, Field(gt=0, lt=1)], Fraction] = (
        0.9,
        0.999,
    )  # divides by the first
    eps: NonNegative = 1e-8
    weight_decay: NonNegative = 0
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    r: NonNegative = 0.0
    weight_lr_power: NonNegative = 2.0

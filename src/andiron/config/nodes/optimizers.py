"""Optimizers: everything but `lr`, which is no option of theirs here."""

from andiron.config.nodes.kinds import Fraction, NonNegative, describes


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

"""Data sets, networks, metrics and renderers."""

from andiron.config.nodes.kinds import Count, Fraction, Seed, Validation, describes


@describes("andiron.data.digits")
class Digits:
    size: Count = 8
    valid: Validation
    split_seed: Seed


@describes("andiron.data.digit_pairs")
class DigitPairs:
    num_pairs: Count
    valid: Validation
    split_seed: Seed


@describes("andiron.data.mnist")
class Mnist:
    root: str
    valid: Validation
    split_seed: Seed


@describes("andiron.data.fashion_mnist")
class FashionMnist:
    root: str
    valid: Validation
    split_seed: Seed


@describes("andiron.models.MLP")
class MLP:
    hidden: tuple[Count, ...]
    dropout: Fraction


@describes("andiron.models.ConvNet")
class ConvNet:
    hidden: Count
    dropout: Fraction


@describes("andiron.metrics.Loss")
class Loss:
    pass


@describes("andiron.metrics.Accuracy")
class Accuracy:
    pass


@describes("andiron.render.auto")
class Auto:
    pass


@describes("andiron.render.Live")
class Live:
    pass


@describes("andiron.render.Plain")
class Plain:
    pass

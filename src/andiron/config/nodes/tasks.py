"""Tasks, the losses they minimise, and the network of two that the adversarial one takes."""

from typing import Annotated, Literal

from pydantic import Field

from andiron.config.nodes.kinds import Count, Fraction, NonNegative, Positive, describes


Number = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Number | tuple[Number, ...]
Scales = Positive | tuple[Positive, ...]


@describes("andiron.tasks.CrossEntropy")
class CrossEntropy:
    class_weights: tuple[Positive, ...] | Literal["balanced"] | None = None
    label_smoothing: Fraction = 0.0
    ignored_index: int | None = None


@describes("andiron.tasks.BinaryCrossEntropy")
class BinaryCrossEntropy:
    positive_weight: Positive | tuple[Positive, ...] | None = None
    ignored_index: int | None = None


@describes("andiron.tasks.MeanSquaredError")
class MeanSquaredError:
    pass




@describes("andiron.tasks.Classifier")
class Classifier:
    pass


@describes("andiron.tasks.BinaryClassifier")
class BinaryClassifier:
    pass


@describes("andiron.tasks.MultiLabelClassifier")
class MultiLabelClassifier:
    pass


@describes("andiron.tasks.Regressor")
class Regressor:
    target_mean: Numbers | None
    target_std: Scales | None


@describes("andiron.tasks.LanguageModel")
class LanguageModel:
    prompt: Annotated[str, Field(min_length=1)]
    sample_length: Count
    temperature: NonNegative
    top_k: Count | None


@describes("andiron.tasks.Adversarial")
class Adversarial:
    input_mean: Numbers | None
    input_std: Scales | None
    grid: Count


@describes("andiron.models.GAN")
class GAN:
    latent: Count
    width: Count

"""Evaluates a trained run on a part of its or other data: metrics, classes, worst errors."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from andiron import errors, inference, outputs, randomness
from andiron.checkpoint import contents
from andiron.data import DataLoader, ImageBatcher, Splits
from andiron.data.composed.composed_datasets import joined
from andiron.data.dataset import Batcher, Dataset, sample_name
from andiron.learner import evaluation
from andiron.metrics import PerClass, Tally
from andiron.metrics.classification import class_tables, pictures
from andiron.metrics.classification.class_tables import ClassScores
from andiron.metrics.classification.classifier_rows import rows
from andiron.outputs import IGNORED
from andiron.plain.token_texts import decoded
from andiron.protocols import Values
from andiron.shell.assembly import configured_learner
from andiron.tasks import LanguageModel
from andiron.wings.trained import predictions
from andiron.wings.trained.predictions import Prediction
from andiron.wings.trained.trained_run import Run

log = logging.getLogger("andiron")
ONE_CLASS = outputs.ClassificationOutput, outputs.BinaryClassificationOutput


@dataclass(frozen=True)
class WorstError:
    """A sample with one of the highest losses; `index` is its place in the part, from 0."""

    index: int
    loss: float
    true: str
    prediction: Prediction
    picture: Tensor | None  # uint8 [channels, height, width], as stored


@dataclass(frozen=True)
class Evaluation:
    """The results of a run on one part of the data.

    `values` are the run's metrics, `classes` the scores of every class of a classifier; some
    metrics also have `texts` and `pictures`; `sample_scores` are 1 or 0, or minus a loss.
    """

    part: str
    samples: int
    values: Values
    classes: list[ClassScores]
    worst: list[WorstError]
    texts: Mapping[str, str]
    pictures: Mapping[str, Tensor]
    sample_scores: list[float]


def evaluate(run: Run, splits: Splits, part: str = "test", *, worst: int = 10) -> Evaluation:
    """The run's metrics on one part of the data, or on `all`, prepared as in training.

    Raises: DataError for an unknown part, or samples that cannot be evaluated.
    """
    dataset = _part_of(splits, part)
    data, precision, batcher = run.preprocessing, run.precision, run.preprocessing.batcher
    if isinstance(batcher, ImageBatcher) and isinstance(splits.batcher, ImageBatcher):
        batcher = replace(batcher, scale=splits.batcher.scale)  # other data's range of pixels
    for option in run.unrecorded:
        if option.startswith("metrics."):
            log.warning("%s is not measured: %s", option, run.unrecorded[option])
    metrics = configured_learner.measured(run.config.metrics, data.offered)
    details, tally = Details(), Tally([*metrics.values()])
    loader = DataLoader(dataset, batcher, batch_size=run.batch_size, device=run.device)
    precision.apply()
    _start_stream(run, part)
    values = evaluation.measure(
        run.model, loader, tally, name=part, autocast=precision.autocast, after=details.add
    )
    classes = details.scores(data.offered.get("class_names"))
    worst_errors = [
        _worst_error(run, batcher, dataset, index, loss) for index, loss in details.worst(worst)
    ]
    return Evaluation(
        part, len(dataset), values, classes, worst_errors, dict(tally.texts), dict(tally.images),
        details.sample_scores(),
    )  # fmt: skip


def _start_stream(run: Run, part: str) -> None:
    """Starts the stream of the run's own pass, for steps that draw, as a VAE's do."""
    average, step = contents.average_in(run.file.name), contents.step_place(run.file.parent.name)
    updates = step[0] if step and part != "test" else run.summary.get("updates", 0)
    randomness.start_stream(run.config.seed, f"{part}-{average}" if average else part, updates)


def _part_of(splits: Splits, part: str) -> Dataset:
    """The samples of a part. Raises: DataError for an unknown one."""
    if part == "all":
        if splits.train is splits.test:
            return splits.train
        rest = [] if splits.validates_on_test else [splits.valid]
        return joined([splits.train, *rest, splits.test])
    if part not in splits.by_name:
        known = [*splits.by_name, "all"]
        hint = errors.nearest(part, known)
        raise errors.DataError(f"split={part}: should be one of {', '.join(known)}{hint}")
    return splits.by_name[part]


def _worst_error(
    run: Run, batcher: Batcher, dataset: Dataset, index: int, loss: float
) -> WorstError:
    """The sample at `index`, read and predicted again."""
    raw = dataset.__getitems__([index])
    batch = batcher(raw, run.device)
    with inference.valid(run.model), run.precision.autocast():
        item = run.model.valid_step(batch)  # type: ignore[operator]
    facts = run.preprocessing.facts
    name, output = sample_name(dataset, index) or str(index), item.network_output
    if isinstance(run.model, LanguageModel):  # up to the last target that counts
        last = (item.targets[0] != IGNORED).nonzero()[-1:]
        output = output[:, : int(last.sum()) + 1] if len(last) else output
        name = decoded(raw.inputs[0, : output.shape[1]].tolist(), run.model.vocabulary)
    (prediction,) = predictions.of_batch(run.model, output, facts, [name])
    true = predictions.target_text(run.model, facts, item.targets[0])
    picture, images = None, pictures.images_in(raw)
    if len(images) == 1:
        picture = pictures.pixels(images[0].float(), largest=max(images[0].shape[2:]))[0].cpu()
    return WorstError(index, loss, true, prediction, picture)


class Details:
    """Scores of every class, for the items of classifiers, and losses of samples, if supervised.

    The loss is -log p(target) for one class or a binary target, its mean for several labels or
    tokens, and the mean of (output - target)^2 for values.
    """

    def __init__(self) -> None:
        self._counts: list[Tensor] = []  # of each batch, by class
        self._losses: list[Tensor] = []
        self._scores: list[Tensor] = []

    def add(self, item: object) -> None:
        """Counts one batch, and stores the loss and the score of each of its samples."""
        if isinstance(item, outputs.SupervisedOutput) and item.has_classes:
            self._counts += PerClass()(item)
        self._losses.append(losses := losses_of(item).cpu())
        scores = -losses
        if isinstance(item, ONE_CLASS):
            scores = (rows(item).decided(0.5) == item.targets).float().cpu()
        self._scores.append(scores.where(losses > -torch.inf, torch.nan))

    def sample_scores(self) -> list[float]:
        """1 for right and 0 for wrong if a sample has one class, otherwise minus its loss.

        NaN where the loss is, or where all targets of a sample are ignored.
        """
        return torch.cat(self._scores).tolist()

    def scores(self, class_names: Sequence[str] | None) -> list[ClassScores]:
        """Precision, recall, F1 and support of every class; empty if nothing was counted."""
        if not self._counts:
            return []
        counts = torch.stack(self._counts).sum(0, dtype=torch.int64)
        return class_tables.scores(counts.cpu().double(), class_names)

    def worst(self, count: int) -> list[tuple[int, float]]:
        """(index, loss) of at most `count` samples, the highest loss first."""
        losses = torch.cat(self._losses).nan_to_num(-torch.inf, torch.inf, -torch.inf)
        order = losses.argsort(descending=True, stable=True)[:count].tolist()
        return [(index, float(losses[index])) for index in order if losses[index] > -torch.inf]


def losses_of(item: object) -> Tensor:
    """[batch]; -inf for samples whose targets are all ignored; [0] for items without a loss."""
    if not isinstance(item, outputs.SupervisedOutput):
        return torch.zeros(0)
    output, targets = item.output.float(), item.targets
    is_class = not targets.is_floating_point()
    if is_class and output.shape[:-1] == targets.shape:
        output = output.movedim(-1, 1)
        losses = functional.cross_entropy(output, targets, reduction="none", ignore_index=IGNORED)
    elif is_class and output.shape == targets.shape:
        labels = targets.clamp(min=0).float()
        losses = functional.binary_cross_entropy_with_logits(output, labels, reduction="none")
    elif output.shape == targets.shape:
        losses = (output - targets).square()
    else:
        raise errors.MismatchError("outputs and targets have different shapes")
    if not is_class and not item.has_ignored:  # any number is a value
        return losses.flatten(1).mean(1)
    counted = (targets != IGNORED).view(len(targets), -1)
    losses = losses.view(len(targets), -1).where(counted, 0).sum(1) / counted.sum(1)
    return losses.where(counted.any(1), -torch.inf)

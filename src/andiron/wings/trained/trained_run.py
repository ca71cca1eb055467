"""A trained run with its network, ready to call; data, metrics and summary are read on first use.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from andiron import errors
from andiron.data import DataLoader, Splits
from andiron.data.composed.torch_samples import SampleBySample
from andiron.data.kinds import recorded_kind
from andiron.data.kinds.new_samples import NewSamples
from andiron.data.splitting.described import Described
from andiron.learner.precision import Precision
from andiron.plain import wings
from andiron.protocols import FromLatents
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, targets
from andiron.shell.config import trust
from andiron.shell.config.schema import Train
from andiron.shell.run import run_record
from andiron.wings.runs import logged_lines
from andiron.wings.trained import predictions, text_generation
from andiron.wings.trained.predictions import Prediction

NOT_FINITE = "the network's output is NaN or infinite; choose other weights, or check the input"
NOT_TAKEN = "the network does not take this text"


@dataclass(frozen=True, eq=False)
class Run:
    """A trained run, as `andiron.load` returns it.

    `model` is the task with its network, in evaluation mode, with the requested `weights`:
    `model(inputs)` returns logits for preprocessed inputs, or predictions in the targets' unit.
    `preprocessing` has the facts of the data and the batcher; `folder` has the paths of the run's
    files, and `folder.path` is the run folder.
    """

    folder: RunFolder
    config: Train
    model: nn.Module
    weights: str
    preprocessing: Described
    device: torch.device
    file: Path  # of the weights
    trusted: trust.Trust = trust.LIST_ALONE  # what the folder may name
    # why components are not on record, by option; of a run started from Python
    unrecorded: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        name = type(self.model).__name__
        return f"Run({str(self.folder.path)!r}, weights={self.weights!r}, model={name})"

    def predict(
        self, inputs: Any, *, batch_size: int | None = None, keep: Sequence[str] = ()
    ) -> list[Prediction]:
        """The predictions for one or several raw `inputs`, preprocessed as in training.

        Pictures are files, folders of files, or PIL images; rows of a table are mappings by column,
        a data frame, or a CSV file; texts are strings, or files as `Path`. Arrays hold samples as
        the data set stores them, other mappings have its fields. The batch size defaults to that
        of validation; predictions for the validation inputs then have the same bits as in
        validation. `keep` are columns of a table to return with the prediction of each row, such as
        its id.
        Raises: DataError with all inputs that cannot be read.
        """
        samples = self.samples(inputs, keep)
        predictions = list(self.predictions(samples, batch_size))
        if samples.problems:
            raise errors.DataError("\n".join(samples.problems))
        return predictions

    def samples(self, inputs: object, keep: Sequence[str] = ()) -> NewSamples:
        """The inputs as samples of the run's data set; pictures are read later.

        `keep` is as in `predict`.

        Raises: DataError for unsuitable inputs, listing all wrong rows.
        """
        samples = recorded_kind.of(self.preprocessing).samples(inputs, keep)
        if keep and not samples.kept:
            raise errors.DataError(
                f"keep={', '.join(keep)}: these inputs are not rows of a table with columns; "
                "leave it out"
            )
        for *_, node in trust.nodes({"data": self.config.data}):
            if isinstance(samples.dataset, SampleBySample) and node.get("collate"):
                own = {"_target_": "andiron.data.from_torch", "collate": node["collate"]}
                collated = targets.build("data", own, dataset=samples.dataset.dataset)
                samples = dataclasses.replace(samples, dataset=collated)
        return samples

    def predictions(
        self, samples: NewSamples, batch_size: int | None = None
    ) -> Iterator[Prediction]:
        """Predictions of `predict`, one at a time; omits the samples in `samples.unreadable`.

        Predictions that are NaN or infinite are added there.

        Raises: MismatchError for a GAN, which has no inputs to predict from.
        """
        if isinstance(self.model, FromLatents):
            raise errors.MismatchError("a GAN cannot predict; run.model(latents) generates images")
        size = self.batch_size if batch_size is None else batch_size
        size = 1 if samples.comes_alone else size
        loader = DataLoader(samples.dataset, samples.batcher, batch_size=size, device=self.device)
        facts, precision = self.preprocessing.facts, self.precision
        precision.apply()
        for number, batch in enumerate(loader.epoch(0)):
            first = number * size
            names = samples.names[first : first + size]
            try:
                outputs = predictions.outputs_of(self.model, batch, precision)
            except (errors.MismatchError, RuntimeError, IndexError) as error:
                if not samples.comes_alone:
                    raise
                why = errors.first_line(error.__cause__ or error)
                samples.unreadable[number] = f"{names[0]}: {NOT_TAKEN} ({why}); shorten it"
                continue
            batch_predictions = predictions.of_batch(self.model, outputs, facts, names)
            for place, prediction in enumerate(batch_predictions, first):
                if place not in samples.unreadable and not prediction.is_finite:
                    samples.unreadable[place] = f"{prediction.name}: {NOT_FINITE}"
                if place not in samples.unreadable:
                    kept = {name: texts[place] for name, texts in samples.kept.items()}
                    yield dataclasses.replace(prediction, kept=kept) if kept else prediction

    def generate(
        self,
        prompt: str,
        length: int = 200,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int = 0,
    ) -> str:
        """The next `length` tokens after `prompt` as text, without the prompt.

        Raises: DataError if the model is no language model, or for an unsuitable prompt or setting.
        """
        pieces = text_generation.pieces(
            self.model, prompt, length, temperature=temperature, top_k=top_k, seed=seed
        )
        return "".join(pieces)

    @property
    def ask(self) -> Any:
        """Questions to the run, if `andiron_lab` is there: its class `Questions` has their names.

        Raises: AndironError without the lab.
        """
        lab = wings.required("ask.questions", "a question to a run", errors.AndironError)
        return lab.Questions(self)

    @property
    def precision(self) -> Precision:
        """The precision of the run's forward passes."""
        return Precision(self.config.precision, self.device)

    @property
    def batch_size(self) -> int:
        """The batch size of the run's validation."""
        return max(self.config.batch_size, self.preprocessing.evaluation_batch_size)

    @cached_property
    def metrics(self) -> logged_lines.Table:
        """Every logged value: columns split, updates, epoch, over (window or epoch), and values.

        `pandas.DataFrame(run.metrics)` and `polars.DataFrame(run.metrics)` accept it.
        """
        return logged_lines.as_table(self.folder.metrics)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json; empty if the run is not finished.

        Raises: DataError if it was changed.
        """
        if not self.folder.summary.exists():
            return {}
        return run_record.read_json(self.folder, self.folder.summary)

    @cached_property
    def data(self) -> Splits:
        """The data set that the run was trained on, with its splits; never downloaded or cached.

        Raises: DataError if its files are missing, or if it is not on record.
        """
        if not self.config.data:
            reason = self.unrecorded.get("data", "config.json names none")
            raise errors.DataError(
                f"{self.folder.path}: its data set is not on record ({reason}); evaluate the run "
                "on other data: data=<name>"
            )
        with components.unwritten():
            return components.data(self.config)

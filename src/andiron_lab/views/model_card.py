"""The model card of an export: what the model is, how to load it, its origin."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from andiron.data import structures
from andiron.data.kinds import recorded_kind
from andiron.data.splitting.described import Described
from andiron.plain import markdown, readable
from andiron.plain.plain_values import or_nan
from andiron.protocols import FromLatents, network_of
from andiron.serialization.record import dtype_name
from andiron.shell.assembly import targets
from andiron.shell.config.schema import Train
from andiron.shell.run import provenance
from andiron.tasks import Regressor
from andiron.wings.trained.exports.checked_export import Agreement, TOLERANCE
from andiron.wings.trained.trained_run import Run

COLUMNS = ("split", "metric", "best", "epoch_of_best", "last")  # of summary.json
SAMPLES = 3  # in the examples
PROVENANCE = ("andiron", "python", "seed", "data")  # no command line, no paths
PACKAGES = ("torch", "torchvision", "numpy", "safetensors")
LICENCES = {  # of data sets with a stated licence, by the function's name
    "digits": "CC BY 4.0 (doi:10.24432/C50P49)",
    "digit_pairs": "CC BY 4.0 (doi:10.24432/C50P49)",
    "fashion_mnist": "MIT (https://github.com/zalandoresearch/fashion-mnist)",
}
OUTPUTS = {  # by task
    "Classifier": "a logit for each class; softmax over them gives probabilities",
    "BinaryClassifier": "a logit for each sample; its sigmoid is the probability of a yes",
    "MultiLabelClassifier": "a logit for each label; its sigmoid is the probability of a yes",
    "Regressor": "values in the targets' own unit",
    "LanguageModel": "logits of the token after each position; softmax gives probabilities",
    "Adversarial": "images with values from -1 to 1, made from normal random latents",
}
LOADING = {  # by file
    "model.pt2": """import torch

program = torch.export.load("model.pt2").module()
outputs = program(torch.zeros({shape}, dtype=torch.{dtype}))""",
    "model.onnx": """import numpy
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
(outputs,) = session.run(None, {{"inputs": numpy.zeros({shape}, dtype="{dtype}")}})""",
    "model.safetensors": """import torch
from safetensors.torch import load_file
{imported}

network = {call}
network.load_state_dict(load_file("model.safetensors"))
outputs = network.eval()(torch.zeros({shape}, dtype=torch.{dtype}))""",
    "adapter_model.safetensors": """import torch
from peft import PeftModel
{imported}

network = PeftModel.from_pretrained({call}, ".")  # give the network its own weights first
outputs = network.eval()(torch.zeros({shape}, dtype=torch.{dtype}))""",
}


@dataclass(frozen=True)
class Card:
    """A run's records about its model; recorded text appears in JSON only, or without markup."""

    model: nn.Module
    weights: str
    described: Described
    config: Train
    summary: Mapping[str, Any]
    origin: Mapping[str, Any]

    def text(
        self,
        name: str,
        agreement: Agreement,
        inputs: Any,
        outputs: Tensor,
        *,
        axes: Mapping[int, str],
        is_stored: bool,
    ) -> str:
        """Markdown with example inputs and outputs; the named `axes` may have any size.

        With `is_stored` the inputs are as the data set stores them.
        """
        return f"""{self._title(name)}

## Inputs and outputs

Inputs: {_layout(inputs, axes)}, {self._input_meaning(is_stored)}.

Outputs: {_layout(outputs, axes)}, {self._output_meaning(name)}.

## How to load it

{self._loading(name, inputs)}

## Agreement with the trained model

On inputs of the run's data: {agreement}; at most {TOLERANCE:g} of the largest output was allowed.

## Metrics

{self._metrics()}

{self._records()}"""

    def _title(self, name: str) -> str:
        network = _plain(type(network_of(self.model)).__name__)
        target = str(self.config.data.get("_target_", self.described.name))
        source = _plain(target.rpartition(".")[2])
        data = _plain(str(_recorded(self.origin, "data", "name") or source))  # such as its folder's
        licence = LICENCES.get(source, "not known to Andiron; see its source")
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return f"""# {network} trained on {data}

|  |  |
| --- | ---: |
| file | {name} |
| network | {network}, {parameters:,} parameters |
| task | {_plain(type(self.model).__name__)} |
| weights | {_plain(self.weights)}, as the run calls them |
| data | {data} ({source}) |
| licence of the data | {licence} |"""

    def _records(self) -> str:
        # NaN stands for the rate that a run from Python has not recorded
        options = {name: value for name, value in vars(self.config).items() if value == value}
        packages = {name: _recorded(self.origin, "packages", name) for name in PACKAGES}
        facts = {key: self.origin.get(key) for key in PROVENANCE}
        revision = _recorded(self.origin, "git", "revision")
        return f"""## Facts of the data

{_json({**self.described.facts})}

## Configuration

{_json(options)}

## Provenance

{_json({"revision": revision, **facts, "packages": packages})}
"""

    def _input_meaning(self, is_stored: bool) -> str:
        batcher = repr(self.described.batcher)
        if isinstance(self.model, FromLatents):
            return "independent normal numbers"
        how = f"preprocessed as by `{_plain(batcher)}` of `andiron.data`"
        if is_stored:
            how = f"as they are stored: the program has the preprocessing `{_plain(batcher)}`"
        return ", ".join(filter(None, [recorded_kind.of(self.described).card, how]))

    def _output_meaning(self, name: str) -> str:
        if isinstance(self.model, Regressor) and name.endswith(".safetensors"):
            mean = self.model.in_unit(self.model.target_mean).tolist()
            std = self.model.target_std.tolist()
            return f"standardised: a value is {mean} + {std} * output, for each output"
        return OUTPUTS.get(type(self.model).__name__, "as the task's forward gives them")

    def _loading(self, name: str, inputs: Any) -> str:
        call = self._network_call() if isinstance(inputs, Tensor) else {}
        if name.endswith(".safetensors") and not call:
            return "Build the network as `model` of the configuration below says, and load it."
        shape = SAMPLES, *inputs.shape[1:]
        code = LOADING[name].format(shape=shape, dtype=dtype_name(inputs.dtype), **call)
        return _fenced(code, "python")

    def _network_call(self) -> dict[str, str]:
        """The call that builds the network, and its import; empty if it takes other objects."""
        node = self.config.model
        if not node:  # of a run started from Python, without a record of its network
            return {}
        facts = self.described.offered | getattr(type(self.model), "network_facts", {})
        _, arguments = targets.target_and_arguments("model", node, facts)
        if not all(key.isidentifier() and _is_plain(value) for key, value in arguments.items()):
            return {}
        module, _, title = str(node["_target_"]).rpartition(".")
        keywords = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        return {"imported": f"from {module} import {title}", "call": f"{title}({keywords})"}

    def _metrics(self) -> str:
        metrics = _recorded(self.summary, "metrics")
        rows = [
            [_cell(row.get(key)) for key in COLUMNS]
            for row in (metrics if isinstance(metrics, list) else [])
            if isinstance(row, Mapping)
        ]
        if not rows:
            return "The run was not finished when this was exported: it has no summary."
        table = markdown.table(COLUMNS, rows)
        tested = str(_recorded(self.summary, "weights", "test") or "last")
        rules = (self.config.early_stopping or {}).values()
        if self.config.test_weights == "last" and any(rule.get("restores_best") for rule in rules):
            tested = f"last, as early stopping restored them: {tested}"
        if tested.partition(",")[0] == self.weights:
            return table
        return f"""{table}

The test values are of other weights than this file: {_plain(tested)}, not `{self.weights}`."""


def of_run(run: Run) -> Card:
    """The card of a run's model."""
    origin = provenance.read(run.folder)
    return Card(run.model, run.weights, run.preprocessing, run.config, run.summary, origin)


def _recorded(record: object, *names: str) -> Any:
    """The value at this place of a record, which may hold anything; None if there is none."""
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def _is_plain(value: object) -> bool:
    """Whether the value can be written as a Python literal."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _layout(tensor: object, axes: Mapping[int, str]) -> str:
    if not isinstance(tensor, Tensor):
        named = (structures.fields(tensor) or {}).items()
        kept = (f"{_plain(name)} {_layout(v, axes)}" for name, v in named if isinstance(v, Tensor))
        return f"a mapping of {', '.join(kept)}"
    sizes = (axes.get(axis, str(size)) for axis, size in enumerate(tensor.shape))
    return f"{dtype_name(tensor.dtype)} [{', '.join(sizes)}]"


def _cell(value: object) -> str:
    return _plain(f"{value:.6g}" if isinstance(value, float) else str(or_nan(value)))


def _plain(text: str) -> str:
    """The text without the special characters of Markdown and HTML."""
    return re.sub(r"[^\w .,:;/()=+*-]", "?", text)


def _json(value: object) -> str:
    text = json.dumps(value, indent=2, default=str, ensure_ascii=False)
    return _fenced(readable.printable(text), "json")


def _fenced(text: str, language: str) -> str:
    """A code block; backquotes, which occur only in strings, are escaped as in JSON and Python."""
    return markdown.fenced(text.replace("`", "\\u0060"), language)

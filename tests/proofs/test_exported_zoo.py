"""Every network of `andiron.models`, trained and exported as both kinds of program, gives the
outputs of the model on a whole test set.

The tolerance is that of `andiron.wings.trained.exports`: 1e-4 of the largest output.
"""

import importlib.util
import os

import pytest
import torch
from in_process import called

import andiron
from andiron import models
from andiron.shell.training import train
from andiron.wings.trained.exports import checked_export, export
from andiron.wings.trained.exports.export import FORMATS, ONNX_PACKAGES

UNEVEN = 97  # samples in a batch: the last one has another number
TEXT = ("data=text", "data.path=text.txt", "data.context_length=16", "task=language_model")
CASES = {
    "mlp": ("model=mlp", "model.dropout=0.2"),
    "convnet": ("model=convnet", "data.size=16"),
    "lenet": ("model=lenet", "channels_last=true"),
    "resnet": ("model=resnet", "model.depth=8"),
    "vit": ("model=vit", "model.depth=2", "model.dim=32", "model.dropout=0.1"),
    "vit_checkpointed": ("model=vit", "model.depth=2", "model.dim=32",
                         "activation_checkpointing=blocks"),
    "gpt": (*TEXT, "metrics=language", "model=gpt", "model.layers=2", "model.dropout=0.1"),
    "timm": ("model=timm", "model.name=test_resnet", "data.size=32"),
    "resnet18": ("model=torchvision", "data.size=32"),
    "hf": ("model=hf", "model.name=vit", "model.auto=AutoModelForImageClassification",
           "model.config={hidden_size:16,intermediate_size:16,num_hidden_layers:2,"
           "num_attention_heads:2,image_size:8,patch_size:4,num_channels:1}"),
    "regression": ("data=diabetes", "task=regression", "loss=mean_squared_error",
                   "metrics=regression"),
    "categories": ("data=csv", "data.path=table.csv", "data.target=y", "data.categories=codes",
                   "model=mlp", "task=regression", "loss=mean_squared_error", "metrics=regression"),
    "labels": ("data=digit_pairs", "task=multilabel", "loss=binary_cross_entropy",
               "metrics=multilabel"),
}  # fmt: skip
PREPROCESSED = ("convnet", "gpt", "regression", "categories", "labels")  # with --preprocessing too
KINDS = ("torch", "onnx")
EXPORTED = [*((case, False) for case in CASES), *((case, True) for case in PREPROCESSED)]
CELLS = [(*pair, kind) for pair in EXPORTED for kind in KINDS]
if "ANDIRON_ALL_EXPORTS" not in os.environ:  # else each in one kind, in turn
    CELLS = [(*pair, KINDS[number % 2]) for number, pair in enumerate(EXPORTED)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run of a case, trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [f"{row / 7},{('red', 'green', 'blue')[row % 3]},{row % 5 + 0.5}" for row in range(200)]
    (folder / "table.csv").write_text("\n".join(["x,colour,y", *rows]))
    (folder / "text.txt").write_text("To be, or not to be, that is the question.\n" * 60)

    def run(case):
        path = folder / case
        if not path.exists():
            length = ("num_updates=20", "batch_size=32", "render=plain", "log_every=10")
            ended = called(train.main, *CASES[case], *length, f"hydra.run.dir={path}", cwd=folder)
            assert (ended.code, ended.errors) == (0, "")
        return path

    return run


def test_every_network_has_a_case():
    named = {option.removeprefix("model=") for options in CASES.values() for option in options}
    assert {name.lower() for name in models.__all__} - {"dropout"} <= named


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch and onnxscript while they translate
@pytest.mark.parametrize(("case", "is_stored", "kind"), CELLS)
def test_the_program_agrees_with_the_model_on_the_whole_test_set(
    case, kind, is_stored, runs, tmp_path
):
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if kind == "onnx" and missing:
        pytest.skip(f"needs {', '.join(missing)}: pip install andiron[onnx]")
    folder, output = runs(case), tmp_path / "out"

    more = ("--preprocessing",) * is_stored
    ended = called(export.main, folder, "--format", kind, "--output", output, *more)
    assert (ended.code, ended.errors) == (0, "")

    run = andiron.load(folder)
    program = program_in(output / FORMATS[kind])
    stored, inputs = whole_test_set(run)
    batches = in_batches(stored if is_stored else inputs)
    with torch.inference_mode():
        expected = [run.model(batch) for batch in in_batches(inputs)]
        result = checked_export.measured(program, batches, expected, case)
    print(f"{case} {kind}: {result}")


def in_batches(samples):
    return [samples[:1], *samples.split(UNEVEN)]


def program_in(path):
    """The exported program, loaded as somebody without Andiron loads it."""
    if path.suffix == ".pt2":
        return torch.export.load(path).module()
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda batch: torch.from_numpy(session.run(None, {"inputs": batch.numpy()})[0])


def whole_test_set(run):
    """All test samples as they are stored and as the model takes them."""
    stored = run.data.test.__getitems__(range(len(run.data.test)))
    return stored.inputs, run.preprocessing.batcher(stored, run.device).inputs

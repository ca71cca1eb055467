"""The lab's groups of metrics, each in a short run."""

import pytest
import safetensors.torch
import torch
from in_process import called

from andiron.shell.training import train

SHORT = ("num_epochs=1", "batch_size=16", "writers=[json_lines]", "render=plain")
CONVOLUTION = (
    "task=regression", "model._target_=torch.nn.Conv2d", "~model.hidden", "~model.dropout",
    "+model.in_channels=1", "+model.out_channels=1", "+model.kernel_size=3", "+model.padding=1",
)  # fmt: skip
GPT = ("model=gpt", "model.dim=16", "model.layers=1", "model.heads=1", "data.context_length=16")
CHOICES = {
    "classification_pictures": ((), "valid loss"),
    "text": (("data=text", "data.path=poem.txt", *GPT), "valid loss"),
    "images": (("data=safetensors", "data.path=pictures.safetensors", *CONVOLUTION), "valid loss"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_run_measures_them(name, here):
    if name != "classification_pictures":
        pytest.importorskip("torchmetrics")
    (here / "poem.txt").write_text("to be, or not to be. " * 90)
    pictures = torch.rand(60, 1, 16, 16)
    safetensors.torch.save_file(
        {"inputs": pictures, "targets": pictures.clone()}, here / "pictures.safetensors"
    )
    options, shown = CHOICES[name]
    ended = called(train.main, f"metrics={name}", *options, *SHORT, "hydra.run.dir=run")
    assert ended.code == 0, ended.errors
    assert shown in ended.output

"""A run of a GAN: it predicts nothing, and its generator is exported."""

import pytest
import torch
from in_process import called

import andiron
from andiron.errors import MismatchError
from andiron.shell.training import train
from andiron.wings.trained.exports import export


@pytest.mark.filterwarnings("ignore")  # of torch while it translates
def test_a_gan_predicts_nothing_and_its_exported_generator_agrees(tmp_path):
    options = ("task=adversarial", "model.width=8", "num_updates=2", "render=plain")
    assert called(train.main, *options, "hydra.run.dir=run", cwd=tmp_path).code == 0
    run = andiron.load(tmp_path / "run")
    with pytest.raises(MismatchError, match="a GAN cannot predict"):
        run.predict(torch.zeros(1, 1, 8, 8))

    ended = called(export.main, tmp_path / "run", "--format", "torch", "--output", tmp_path / "out")
    assert (ended.code, ended.errors) == (0, "")
    latents = torch.randn(7, run.model.latent)
    with torch.inference_mode():
        images = torch.export.load(tmp_path / "out" / "model.pt2").module()(latents)
        torch.testing.assert_close(images, run.model(latents), atol=1e-5, rtol=1e-4)

"""A compiled network trains like the plain one."""

import pytest
import torch
from in_process import called
from safetensors.torch import load_file

from andiron.shell.training import train

OPTIONS = ("num_epochs=1", "batch_size=256", "model.hidden=[32]", "optimizer=sgd", "~checkpoint")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch while it compiles
def test_a_compiled_network_has_equal_names_and_equal_numbers_to_rounding(tmp_path):
    for name, options in (("plain", ()), ("compiled", ("compile=true",))):
        ended = called(train.main, *OPTIONS, *options, f"hydra.run.dir={tmp_path / name}")
        assert ended.code == 0, ended.errors
    plain, compiled = (
        load_file(tmp_path / name / "model.safetensors") for name in ("plain", "compiled")
    )
    assert plain.keys() == compiled.keys()
    for name in plain:
        # fused operations round elsewhere
        torch.testing.assert_close(compiled[name], plain[name], rtol=0, atol=1e-5)

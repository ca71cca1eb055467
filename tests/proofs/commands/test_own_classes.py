"""Runs of own classes resume once the user names the classes; other runs are skipped."""

import json
import shutil

import pytest
from in_process import called

import andiron
from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron.shell.training import train
from andiron.wings.trained import evaluate
from proofs.lab_parts import rerun

OWN = """from torch import nn

class Net(nn.Sequential):
    def __init__(self, input_shape, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(64, num_classes))
"""
RUN = ("hydra.run.dir=run", "num_epochs=1", "data=partial", "data.fraction=0.2", "render=plain")


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def trained(here, *arguments):
    return called(train.main, *arguments, cwd=here)


@pytest.fixture
def own_run(here):
    own = "+model={_target_: my_networks.Net}"
    ended = trained(here, *RUN, "~model", own)
    assert ended.code == 0, ended.errors
    return here / "run"


def test_a_class_named_only_by_the_folder_is_refused_with_the_trust_option(here, own_run):
    for ended, option in (
        (trained(here, "resume=run"), "trust=[my_networks]"),
        (called(rerun.main, "run", "--into", "again", cwd=here), "--trust my_networks"),
        (called(evaluate.main, "run", cwd=here), "--trust my_networks"),
    ):
        assert ended.code == 2
        assert "model._target_='my_networks.Net'" in ended.errors
        assert f"; {option} trusts that package" in ended.errors
    assert "1 problem in the configuration; nothing was loaded:" in ended.errors
    assert not (here / "again").exists()
    with pytest.raises(errors.ConfigError, match=r"trust=\['my_networks'\] trusts that package"):
        andiron.load(own_run)


def test_a_trusted_package_is_built(here, own_run):
    assert trained(here, "resume=run", "trust=[my_networks]").code == 0
    repeated = called(rerun.main, "run", "--into", "again", "--trust", "my_networks", cwd=here)
    assert repeated.code == 0, repeated.errors


def test_classes_named_in_a_folder_of_configurations_are_built(here, own_run):
    (here / "mine" / "model").mkdir(parents=True)
    (here / "mine" / "model" / "net.yaml").write_text("_target_: my_networks.Net\n")
    flags = ("--config-dir", str(here / "mine"))
    ended = trained(here, "resume=run", "log_every=5", *flags)
    assert "my_networks" not in ended.errors


def test_trust_is_never_read_from_the_folder(here, own_run):
    folder = RunFolder(own_run)
    plain = json.loads(folder.config.read_text())
    folder.config.write_text(json.dumps({**plain, "trust": ["my_networks"]}))
    run_record.accept(folder)
    assert trained(here, "resume=run").code == 2


LAZY = """from torch import nn

class Lazy(nn.Sequential):
    def __init__(self, num_classes, width=8):
        super().__init__(nn.Flatten(), nn.LazyLinear(width), nn.ReLU(), nn.LazyLinear(num_classes))
"""


def test_a_lazy_network_trains_resumes_exactly_and_loads(here):
    (here / "lazy_networks.py").write_text(LAZY)
    own = (*RUN, "~model", "+model={_target_: lazy_networks.Lazy}")
    assert trained(here, *own, "num_epochs=2", "hydra.run.dir=whole").code == 0
    assert trained(here, *own, "hydra.run.dir=resumed").code == 0
    ended = trained(here, "resume=resumed", "num_epochs=2", "trust=[lazy_networks]")
    assert ended.code == 0, ended.errors

    weights = [(here / name / "model.safetensors").read_bytes() for name in ("whole", "resumed")]
    assert weights[0] == weights[1]
    loaded = andiron.load(here / "whole", trust=["lazy_networks"])
    assert loaded.model.network[1].weight.shape == (8, 64)


def test_a_lazy_network_larger_than_memory_is_refused(here):
    (here / "lazy_networks.py").write_text(LAZY)
    own = ("~model", "+model={_target_: lazy_networks.Lazy, width: 1000000000000}")
    ended = trained(here, *RUN, *own)
    assert ended.code == 2 and ended.errors.count("\n") == 2
    assert "takes 232.8 TiB and more for weights" in ended.errors


TASK = """from torch import nn
from andiron.tasks import Classifier

class Own(Classifier):
    def __init__(self, num_classes):
        super().__init__(nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes)))
"""


def test_a_model_or_loss_that_the_task_does_not_take_is_an_error(here):
    (here / "own_tasks.py").write_text(TASK)
    own = (*RUN, "~task", "+task={_target_: own_tasks.Own}")
    ended = trained(here, *own, "model=convnet", "loss.label_smoothing=0.1")
    assert ended.problems == [
        f"{option}: own_tasks.Own takes no {argument}, so nothing would use it; leave it out, or "
        f"give its constructor an argument `{argument}`"
        for option, argument in (("model=convnet", "network"), ("loss.label_smoothing=0.1", "loss"))
    ]
    assert not (here / "run").exists()
    assert trained(here, *own).code == 0  # those of the defaults are not the user's


def test_a_checkpoint_of_another_run_is_passed_over(here):
    for name, seed in (("one", 1), ("two", 2)):
        ended = trained(here, *RUN, f"hydra.run.dir={name}", f"seed={seed}")
        assert ended.code == 0
    shutil.rmtree(here / "two" / "checkpoints")
    shutil.copytree(here / "one" / "checkpoints", here / "two" / "checkpoints")
    ended = trained(here, "resume=two", "num_epochs=2")
    assert ended.code == 1
    assert "is of another run" in ended.output and "no checkpoint in" in ended.errors

"""A run with frozen groups: what is written once is there for every command."""

import json
import shutil

import pytest
from in_process import called
from stops_at import stopping

from andiron import serialization
from andiron.run_folder import RunFolder
from andiron.serialization import safetensors_codec
from andiron.shell.training import train
from andiron.wings.runs import command as runs
from andiron.wings.trained import evaluate
from andiron.wings.trained.exports import export
from proofs.lab_parts import rerun

FROZEN, WEIGHTS = "frozen.safetensors", "model.safetensors"
SHORT = ("data=partial", "render=plain", "num_epochs=3", "model.hidden=[20,10]")
BODY = [f"network.layers.{place}.{kind}" for place in (1, 3) for kind in ("bias", "weight")]
HEAD = ["network.layers.5.bias", "network.layers.5.weight"]
KINDS = {
    "for good": ("param_groups=head_only", "averages=ema"),
    "until an epoch": ("param_groups=head_only", "param_groups.body.frozen=2epochs"),
    "layer by layer": (
        "+param_groups.first={match:layers.1,frozen:2epochs}",
        "+param_groups.second={match:layers.3,frozen:1epochs}", "checkpoint.last=4",
    ),
}  # fmt: skip


@pytest.fixture
def here(tmp_path):
    return tmp_path


def trained(here, *arguments):
    return called(train.main, *arguments, cwd=here)


def is_trained(here, *arguments):
    ended = trained(here, *arguments)
    assert (ended.code, ended.errors) == (0, "")
    return ended.output


def stopped(here, kind, updates):
    with stopping(updates=updates):
        assert trained(here, *SHORT, *KINDS[kind], "hydra.run.dir=run").code == 130
    return RunFolder(here / "run")


def inodes(folder):
    return {path.stat().st_ino for path in folder.checkpoints.glob(f"step-*/{FROZEN}")}


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_anywhere_it_resumes_with_the_bits_of_a_whole_run(here, kind):
    is_trained(here, *SHORT, *KINDS[kind], "hydra.run.dir=whole")
    whole = RunFolder(here / "whole")
    of_epoch = json.loads(whole.summary.read_text())["updates"] // 3
    stopped(here, kind, of_epoch - 1)
    for updates in (of_epoch, of_epoch + 1, 2 * of_epoch):
        with stopping(updates=updates):
            assert trained(here, "resume=run").code == 130
    is_trained(here, "resume=run")
    assert (here / "run" / WEIGHTS).read_bytes() == whole.model.read_bytes()


def test_layers_that_thaw_are_in_the_checkpoints_from_then_on(here):
    is_trained(here, *SHORT, *KINDS["layer by layer"], "hydra.run.dir=run")
    of_epoch = json.loads((here / "run" / "summary.json").read_text())["updates"] // 3
    folder, trained_names = here / "run" / "checkpoints", {}
    for epochs in range(4):
        saved = folder / f"step-{epochs * of_epoch}" / WEIGHTS
        assert sorted(serialization.load_tensors(saved)) == BODY + HEAD
        alone = safetensors_codec.load_tensors(saved, alone=True)
        trained_names[epochs] = sorted(alone)
    assert trained_names == {0: HEAD, 1: HEAD, 2: BODY[2:] + HEAD, 3: BODY + HEAD}


def test_every_command_reads_a_stopped_run(here):
    folder = stopped(here, "for good", 4)
    assert len(inodes(folder)) == 1 and not folder.model.exists()
    newest = max(folder.checkpoints.glob("step-*"), key=lambda path: int(path.name[5:]))
    for start in ("run", newest / WEIGHTS):
        said = is_trained(here, *SHORT, f"start_from={start}", "hydra.run.dir=second")
        assert f"weights from {newest / WEIGHTS}: 6 tensors\n" in said
        shutil.rmtree(here / "second")
    for weights in ("last", "best", "ema"):
        ended = called(evaluate.main, "run", "--weights", weights, cwd=here)
        assert (ended.code, ended.errors) == (0, "")
    ended = called(export.main, "run", "--format", "safetensors", "--output", "out", cwd=here)
    assert (ended.code, ended.errors) == (0, "")
    assert len(serialization.load_tensors(next((here / "out").glob("*.safetensors")))) == 6
    is_trained(here, "resume=run")
    ended = called(rerun.main, "run", "--into", "again", cwd=here)
    assert ended.code == 0 and "\nexact: " in f"\n{ended.output}"
    assert called(runs.main, "rm", "run", "--yes", cwd=here).code == 0
    assert not (here / "run").exists()


def test_a_run_that_is_overwritten_leaves_nothing_of_its_frozen_weights(here):
    stopped(here, "for good", 4)
    is_trained(here, *SHORT, "hydra.run.dir=run", "overwrite=true")
    assert not [*(here / "run").rglob(FROZEN)]


def test_a_lost_file_is_named_and_the_run_resumes_once_it_is_back(here):
    folder = stopped(here, "for good", 4)
    files = [*folder.checkpoints.glob(f"step-*/{FROZEN}")]
    kept = shutil.copy(files[0], here / "kept")
    for file in files:
        file.unlink()
    for command in (
        lambda: trained(here, "resume=run"),
        lambda: trained(here, *SHORT, "start_from=run", "hydra.run.dir=second"),
        lambda: trained(
            here, *SHORT, f"start_from={files[0].with_name(WEIGHTS)}", "hydra.run.dir=second"
        ),
    ):
        ended = command()
        assert ended.code == 1 and not (here / "second").exists()
        assert f"/{FROZEN}: missing; copy the file from another checkpoint" in ended.errors
    for file in files:
        shutil.copy(kept, file)
    is_trained(here, "resume=run")


def test_statistics_of_a_group_that_is_not_frozen_are_refused_as_an_option(here):
    group = "+param_groups.body={match:layers.1,statistics:train}"
    problems = trained(here, *SHORT, group).problems
    assert problems == [
        "param_groups.body.statistics=train: the group is not frozen, so they train; remove it, "
        "or give `frozen` too"
    ]


def test_statistics_train_where_asked_for(here):
    group = "{match:features,frozen:true,statistics:train}"
    convnet = ("model=convnet", "data=partial", "render=plain", "num_epochs=1")
    is_trained(here, *convnet, f"+param_groups.body={group}", "hydra.run.dir=run")
    record = json.loads((here / "run" / "param_groups.json").read_text())
    assert record["body"]["statistics"] == "train"

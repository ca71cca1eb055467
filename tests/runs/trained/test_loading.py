"""`andiron.load`: the requested weights in their network, executing nothing of the folder."""

import json
import shutil

import pytest
import torch

import andiron
from andiron import checkpoint, errors, serialization
from andiron.data import digits
from andiron.data.splitting import described
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron.shell.training import train
from andiron.wings.trained import recorded_data
from in_process import called
from proofs.lab_parts import rerun
from refusals import message_of


@pytest.fixture
def copied(finished_digits, tmp_path):
    return shutil.copytree(finished_digits, tmp_path / "run")


def weights_of(run):
    return run.model.state_dict()


def same(run, file):
    expected = serialization.load_tensors(file)
    weights = weights_of(run)
    return weights.keys() == expected.keys() and all(
        torch.equal(weights[name], expected[name]) for name in weights
    )


def changed(folder, **options):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
    run_record.accept(RunFolder(folder))


def modified(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_weights_are_the_last_the_best_or_an_average(finished_digits):
    before = modified(finished_digits)
    last = andiron.load(finished_digits)
    best = andiron.load(finished_digits, weights="best")

    assert same(last, finished_digits / "model.safetensors")
    average = andiron.load(str(finished_digits), weights="ema")
    assert same(average, finished_digits / "model-ema.safetensors")
    lowest = [
        row["best"]
        for row in last.summary["metrics"]
        if (row["split"], row["metric"]) == ("valid", "loss")
    ]
    columns = (last.metrics[name] for name in ("split", "over", "loss", "updates"))
    where = ["valid", "epoch", *lowest]
    updates = [at for *result, at in zip(*columns, strict=True) if result == where]
    assert same(best, finished_digits / "checkpoints" / f"step-{updates[0]}" / "model.safetensors")
    assert not last.model.training
    assert modified(finished_digits) == before


def test_weights_that_are_not_there_are_refused_with_those_that_are(finished_digits, tmp_path):
    for name in ("swa", "../../model", ""):
        with pytest.raises(errors.RunFolderError, match=r"available: last, best, ema$"):
            andiron.load(finished_digits, weights=name)
    with pytest.raises(errors.RunFolderError, match="no such folder; name a run's"):
        andiron.load(tmp_path / "none")
    with pytest.raises(errors.RunFolderError, match="name one of its 1 runs, such as .*digits"):
        andiron.load(finished_digits.parent)


def test_an_interrupted_run_has_the_weights_of_its_newest_whole_checkpoint(copied):
    checkpoints = copied / "checkpoints"
    older, newest = (checkpoints / name for name in checkpoint.names(checkpoints)[-2:])
    for path in [*copied.glob("model*.safetensors"), copied / "summary.json"]:
        path.unlink()

    assert same(andiron.load(copied), newest / "model.safetensors")
    assert same(andiron.load(copied, weights="ema"), newest / "model-ema.safetensors")
    assert andiron.load(copied).summary == {}
    (newest / "model.safetensors").write_bytes(b"damaged")
    assert same(andiron.load(copied), older / "model.safetensors")
    assert newest.is_dir()  # nothing is renamed


def test_a_run_that_failed_before_it_trained_is_refused_with_the_reason(copied):
    (copied / "data.json").unlink()
    (copied / "status.json").write_text('{"status": "failed", "reason": "no column"}')
    with pytest.raises(errors.RunFolderError, match="failed before it trained .no column.; name"):
        andiron.load(copied)


def test_latest_is_the_newest_run_below_the_current_directory(finished_digits, here):
    assert "latest: no run in outputs" in message_of(errors.RunFolderError, andiron.load, "latest")
    date = here / "outputs" / "2026-01-01"
    date.mkdir(parents=True)
    shutil.copytree(finished_digits, date / "12-00-00")
    assert andiron.load("latest").folder.path.name == "12-00-00"


def test_the_network_is_built_without_the_data(copied, monkeypatch):
    data = "andiron.shell.assembly.components.data"
    monkeypatch.setattr(data, lambda config: pytest.fail("was read"))
    andiron.load(copied)
    monkeypatch.undo()
    plain = json.loads((copied / "data.json").read_text())
    del plain["preprocessing"]  # as older versions wrote it
    (copied / "data.json").write_text(json.dumps(plain))
    run_record.accept(RunFolder(copied))
    expected = described.of_splits(digits(valid=0.1, split_seed=0))
    assert andiron.load(copied).preprocessing == expected


def test_a_network_larger_than_its_weights_is_refused_before_allocation(copied):
    huge = {"_target_": "andiron.models.MLP", "hidden": [10**6, 10**6]}
    changed(copied, model=huge)
    with pytest.raises(errors.ConfigError, match="which are not in .*model.safetensors"):
        andiron.load(copied)
    changed(copied, model={"_target_": "andiron.models.MLP", "hidden": [3000, 3000]})
    for main, *arguments in (
        (train.main, f"resume={copied}", "num_epochs=3"),
        (rerun.main, copied, "--into", copied.with_name("again")),
    ):
        assert "which are not in " in called(main, *arguments).errors
    changed(copied, model={"_target_": "andiron.models.MLP", "hidden": [7]})
    assert "nothing was loaded" in message_of(errors.MismatchError, andiron.load, copied)


def test_a_class_that_is_not_trusted_is_refused_and_one_that_is_loads(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\nclass Net(nn.Sequential):\n    def __init__(self, input_shape, "
        "num_classes):\n        super().__init__(nn.Flatten(), nn.Linear(64, num_classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = ("~model", "+model={_target_: my_networks.Net}", "hydra.run.dir=run", "num_epochs=1")
    assert called(train.main, *own, "render=plain", cwd=tmp_path).code == 0
    assert "trust=['my_networks']" in message_of(errors.ConfigError, andiron.load, tmp_path / "run")
    run = andiron.load(tmp_path / "run", trust=["my_networks"])
    assert run.model(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


@pytest.mark.parametrize("wrong", [
    {"batcher": {"kind": "os.system"}},
    {"batcher": {"kind": "ImageBatcher", "mean": "x", "std": 1.0}},
    {"evaluation_batch_size": 0},
    {"input_dtype": 3},
    {"class_counts": [-1]},
    {"more": 1},
    {"batcher": {"kind": "ImageBatcher", "mean": [0.5, 0.5], "std": 1.0}},
    {"input_shape": [1, -8]},
    {"num_classes": 2, "class_names": ["a", "b", "c"]},
])  # fmt: skip
def test_preprocessing_that_no_run_writes_is_refused(wrong):
    plain = described.as_plain(digits(valid=0.1, split_seed=0))
    of_facts = plain if wrong.keys() & {"input_shape", "num_classes"} else plain["preprocessing"]
    of_facts |= wrong
    with pytest.raises(errors.DataError, match="data.json: is malformed"):
        recorded_data.from_plain("data.json", plain)


@pytest.mark.parametrize(("name", "number", "why"), [
    ("std", [1.0, 0.0], "number 1 of std is 0.0, not from 1.4e-45 to 3.4e+38"),
    ("std", [1e-320, 1.0], "number 0 of std is 1e-320, not from 1.4e-45 to 3.4e+38"),
    ("mean", [float("nan"), 0.0], "number 0 of mean is nan, not from -3.4e+38 to 3.4e+38"),
])  # fmt: skip
def test_numbers_that_inputs_cannot_be_divided_by_are_refused(name, number, why):
    batcher = {"kind": "ArrayBatcher", "mean": [0.0, 0.0], "std": [1.0, 1.0]} | {name: number}
    preprocessing = {
        "batcher": batcher, "evaluation_batch_size": 1, "input_dtype": None, "class_counts": None
    }  # fmt: skip
    plain = {"input_shape": [2], "columns": ["a", "b"], "preprocessing": preprocessing}
    with pytest.raises(errors.DataError) as refused:
        recorded_data.from_plain("data.json", plain)
    assert str(refused.value) == f"data.json: is malformed ({why}); restore it from a copy"


def test_a_link_out_of_the_folder_is_refused(copied, tmp_path):
    (copied / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    (copied / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(errors.DataError, match="a link leads out of the run's folder"):
        andiron.load(copied)

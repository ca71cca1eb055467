"""A whole run by its folder: everything about it is there and agrees, and it is a function of its
config.
"""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from in_process import called
from omegaconf import OmegaConf
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.context import RequestContext
from tensorboard.data.provider import RunTagFilter
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, metadata

from andiron import checkpoint, errors, serialization
from andiron.run_folder import RunFolder
from andiron.shell.assembly import components, devices
from andiron.shell.config import resolution
from andiron.shell.config.schema import Train
from andiron.shell.run import metadata as run_metadata
from andiron.shell.training import experiment, train
from refusals import message_of

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[2]
THREE_EPOCHS = ("num_epochs=3", "log_every=9")
CONSTANT = {"_target_": "andiron.schedules.Constant", "lr": 1e9}


def run(folder: Path, *overrides: str) -> Path:
    """`python train.py` into `folder`, in this process."""
    ended = called(train.main, f"hydra.run.dir={folder}", *overrides, cwd=folder.parent)
    assert ended.code == 0, ended.errors
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A real run of three epochs, which many tests read."""
    folder = tmp_path_factory.mktemp("experiment") / "run"
    command = [sys.executable, ROOT / "train.py", f"hydra.run.dir={folder}", *THREE_EPOCHS]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=environment, cwd=folder.parent
    )
    assert done.returncode == 0, done.stderr
    return folder


def read(folder, name):
    return json.loads((folder / name).read_text())


def points(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_everything_about_the_run_is_in_its_folder(folder):
    names = {path.name for path in folder.iterdir()}
    names = {name for name in names if not name.startswith("dirty-")}
    assert names == {
        "manifest.json", "config.json", ".hydra", "provenance.json", "data.json",
        "param_groups.json", "metrics.jsonl", "experiment.log", "status.json", "tensorboard",
        "checkpoints", "model.safetensors", "summary.json",
    }  # fmt: skip
    assert {path.name for path in (folder / ".hydra").iterdir()} == {
        "config.yaml", "hydra.yaml", "overrides.yaml",
    }  # fmt: skip
    assert all(
        any((folder / "tensorboard" / split).glob("events.*")) for split in (".", "train", "valid")
    )
    assert not (folder / "tensorboard" / "test").exists()
    assert read(folder, "status.json")["status"] == "done"


def test_overwriting_removes_exactly_the_files_of_a_run(folder):
    names = {path.name for path in folder.iterdir()}
    # missing after a run of one process that went well, and without optional writers
    names |= {"nonfinite", "profile", "metrics.csv", "wandb", "mlflow", "ranks"}
    names.add("code.py")  # of a run that Python built
    names = {name for name in names if not name.startswith("dirty-")}  # of uncommitted changes
    assert names == {path.name for path in RunFolder(folder).own}


def test_the_config_is_what_hydra_composed_from_the_overrides_on_record(folder):
    overrides = yaml.safe_load((folder / ".hydra" / "overrides.yaml").read_text())
    assert overrides == list(THREE_EPOCHS)
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        composed = compose("train", overrides=overrides)
    assert Train.load(folder / "config.json") == Train(**resolution.plain(composed))
    assert OmegaConf.load(folder / ".hydra" / "config.yaml") == composed


def test_provenance_has_the_command_the_seed_and_every_sample(folder):
    provenance = read(folder, "provenance.json")
    assert provenance["command"][1:] == [f"hydra.run.dir={folder}", *THREE_EPOCHS]
    assert (provenance["seed"], sum(provenance["data"]["sizes"].values())) == (42, 1797)


def test_a_checkpoints_files_match_its_manifest(folder):
    for saved in (folder / "checkpoints").glob("step-*"):
        contents = {
            path.name: path.read_bytes() for path in saved.iterdir() if path.name != "manifest.json"
        }
        assert read(saved, "manifest.json")["files"] == {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        }


def test_tensorboard_has_the_values_of_the_metrics_file(folder):
    for split, over in (("train", "window"), ("valid", "epoch")):
        shown = EventAccumulator(str(folder / "tensorboard" / split)).Reload()
        written = [
            point for point in points(folder) if (point["split"], point["over"]) == (split, over)
        ]
        for tag in ("loss", "accuracy"):
            events = [(event.step, event.value) for event in shown.Scalars(tag)]
            assert events == [
                (point["updates"], float(np.float32(point[tag]))) for point in written
            ]


def test_the_config_is_plain_resolved_and_loads(folder):
    config = Train.load(folder / "config.json")
    assert (config.lr, config.scheduler["lr"], config.num_epochs, config.seed) == (
        1e-3, 1e-3, 3, 42,
    )  # fmt: skip
    assert "${" not in (folder / "config.json").read_text()


def test_the_config_alone_makes_the_same_weights_again(folder, tmp_path):
    """`config.json` re-runs on its own, without Hydra."""
    torch.set_num_threads(1)
    experiment.build(Train.load(folder / "config.json"), tmp_path).run()
    assert (tmp_path / "model.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_every_parameter_has_one_owner_under_its_saved_name(folder):
    (group,) = read(folder, "param_groups.json").values()
    weights = serialization.load_tensors(folder / "model.safetensors")
    assert {name: list(tensor.shape) for name, tensor in weights.items()} == group["parameters"]
    assert group["num_parameters"] == sum(tensor.numel() for tensor in weights.values())


def test_values_are_logged_at_every_log_point_and_at_the_end_of_each_epoch(folder):
    logged = [(p["split"], p["updates"], p["epoch"], p["over"]) for p in points(folder)]
    windows = [updates for _, updates, _, over in logged if over == "window"]
    assert windows == [9, 18, 21, 27, 36, 42, 45, 54, 63]  # 21 updates an epoch
    epochs = [(split, updates, epoch) for split, updates, epoch, over in logged if over == "epoch"]
    value = [(split, 21 * epoch, epoch) for epoch in (1, 2, 3) for split in ("train", "valid")]
    assert epochs == [*value, ("test", 63, 3)]


def test_the_summary_agrees_with_the_points(folder):
    summary = read(folder, "summary.json")
    assert summary["directions"] == {"loss": "lowest", "accuracy": "highest"}
    for row in summary["metrics"]:
        of_epochs = [
            p for p in points(folder) if p["over"] == "epoch" and p["split"] == row["split"]
        ]
        values = [point[row["metric"]] for point in of_epochs]
        best = max(values) if row["metric"] == "accuracy" else min(values)
        assert (row["best"], row["last"]) == (best, values[-1])
        assert row["epoch_of_best"] == of_epochs[values.index(best)]["epoch"]


@pytest.fixture(scope="module")
def hparams_tab(folder):
    """TensorBoard's own view of the run: its experiment, and the last values by run and tag."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder)).Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(folder))
    shown, asked = backend_context.Context(TBContext(data_provider=provider)), RequestContext()
    known = shown.hparams_metadata(asked, "")
    experiment = shown.experiment_from_metadata(asked, "", True, known, [])
    last = shown.read_last_scalars(asked, "", RunTagFilter())
    return experiment, last


def test_the_hparams_tab_has_the_values_of_the_summary_and_no_others(folder, hparams_tab):
    experiment, last = hparams_tab
    expected = {
        f"{row['split']}/{row['metric']}": float(np.float32(row["last"]))
        for row in read(folder, "summary.json")["metrics"]
    }
    assert [info.name.tag for info in experiment.metric_infos] == sorted(expected)
    assert {info.name.group for info in experiment.metric_infos} == {""}
    result = {tag: datum.value for tag, datum in last["tensorboard/hparams"].items()}
    assert result == expected and len(result) == 6


def test_config_and_provenance_are_pages_of_the_text_tab(folder):
    shown = EventAccumulator(str(folder / "tensorboard")).Reload()
    pages = {
        tag.partition("/")[0]: shown.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        for tag in shown.Tags()["tensors"]
        if tag.endswith("/text_summary")
    }
    assert set(pages) == {"config", "param_groups", "provenance"}
    assert '"num_epochs": 3' in pages["config"] and '"git"' in pages["provenance"]


def test_the_last_two_and_the_best_checkpoint_are_kept_the_last_as_model(folder):
    losses = {p["updates"]: p["loss"] for p in points(folder) if p["split"] == "valid"}
    kept = {f"step-{updates}" for updates in (42, 63, min(losses, key=losses.get))}
    assert {path.name for path in (folder / "checkpoints").glob("*-*")} == kept
    last = checkpoint.load(folder / "checkpoints" / "step-63")
    weights = serialization.load_tensors(folder / "model.safetensors")
    assert all(torch.equal(last.model[name], weights[name]) for name in weights)
    assert (last.state["updates"], last.state["epoch"]) == (63, 3)


def test_the_log_reports_data_and_epochs(folder):
    text = (folder / "experiment.log").read_text()
    assert "data digits: 1295 train, 143 valid, 359 test, in memory on cpu" in text
    assert [f"epoch {epoch}/3" in text for epoch in (1, 2, 3)] == [True] * 3


@pytest.mark.parametrize(
    "overrides", [(), ("num_workers=1",), ("num_workers=2", "render=plain")], ids=["same", "1", "2"]
)
def test_the_same_seed_gives_the_same_weights_with_any_number_of_workers(
    folder, tmp_path, overrides
):
    again = run(tmp_path / "run", *THREE_EPOCHS, *overrides)
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    words = f"gathered by {overrides[0][-1]} worker process" if overrides else ""
    assert words in (again / "experiment.log").read_text()


def test_dropout_repeats_with_the_seed_and_another_seed_is_another_run(tmp_path):
    seeds = {"a": 1, "b": 1, "c": 2}
    runs = [
        run(tmp_path / name, "num_epochs=1", "model=convnet", f"seed={seed}")
        for name, seed in seeds.items()
    ]
    a, b, c = [(folder / "model.safetensors").read_bytes() for folder in runs]
    assert a == b != c


def test_a_failed_run_is_a_failure_in_tensorboard_and_closes_its_files(folder, tmp_path):
    config = Train.load(folder / "config.json")
    diverging = dataclasses.replace(
        config, optimizer={"_target_": "torch.optim.SGD"}, lr=1e9, scheduler=CONSTANT, render=None
    )
    with pytest.raises(errors.NonFiniteError):
        experiment.build(diverging, tmp_path).run()

    assert session_end(tmp_path / "tensorboard/hparams").status == api_pb2.STATUS_FAILURE
    assert session_end(folder / "tensorboard/hparams").status == api_pb2.STATUS_SUCCESS
    assert open_below(tmp_path) == []
    assert not (tmp_path / "model.safetensors").exists()


def test_a_build_that_fails_leaves_no_file_open(folder, tmp_path):
    config = Train.load(folder / "config.json")
    with pytest.raises(errors.ConfigError) as caught:
        experiment.build(
            dataclasses.replace(config, checkpoint={**config.checkpoint, "metric": "f1"}), tmp_path
        )

    assert caught.value.problems == (
        "checkpoint.metric=f1: not measured on valid; available: loss, accuracy",
    )
    assert open_below(tmp_path) == []


def session_end(logdir):
    """The end of the run's row in the HParams tab."""
    data = EventAccumulator(str(logdir)).Reload().summary_metadata[metadata.SESSION_END_INFO_TAG]
    return metadata.parse_session_end_info_plugin_data(data.plugin_data.content)


def open_below(path):
    """The files below `path` that this process has open."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("only Linux tells which files are open")
    links = [
        descriptor.readlink() for descriptor in descriptors.iterdir() if descriptor.is_symlink()
    ]
    return [link for link in links if link.is_relative_to(path)]


def test_validating_on_the_test_set_is_reported(tmp_path):
    folder = run(tmp_path / "run", "num_epochs=1", "data.valid=test")
    log = (folder / "experiment.log").read_text()
    assert "data.valid=test: validation runs on the test set" in log
    assert "1438 train, 359 valid, 359 test" in log
    sizes = {"train": 1438, "valid": 359, "test": 359}
    assert read(folder, "provenance.json")["data"]["sizes"] == sizes


def test_hyperparameters_are_flat_without_repetitions(folder):
    flat = run_metadata.hyperparameters(read(folder, "config.json"))
    assert flat == {
        "lr": 1e-3, "batch_size": 64, "num_epochs": 3, "seed": 42, "optimizer": "Adam",
        "optimizer.betas": "[0.9, 0.999]", "optimizer.eps": 1e-8, "optimizer.weight_decay": 0.0,
        "optimizer.amsgrad": False, "model": "MLP", "model.hidden": "[512, 256]",
        "model.dropout": 0.0, "data": "digits", "data.valid": 0.1, "data.split_seed": 0,
        "data.size": 8, "task": "Classifier", "loss": "CrossEntropy", "loss.label_smoothing": 0.0,
        "scheduler": "Constant",
    }  # fmt: skip


def test_auto_is_the_best_device_there_is():
    is_there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    best = next((name for name, there in is_there.items() if there), "cpu")
    assert devices.resolve("auto").type == best
    assert devices.resolve("cpu") == torch.device("cpu")
    message = message_of(errors.DeviceError, devices.resolve, "cuda:77")
    assert message.startswith("device=cuda:77: this machine has no such device; it has: cpu")


def test_a_run_starts_from_the_weights_of_another_as_far_as_they_fit(folder, tmp_path):
    weights = folder / "model.safetensors"
    again = run(tmp_path / "run", "num_epochs=1", "lr=1e-30", f"start_from={weights}")
    words = (again / "experiment.log").read_text()

    assert f"weights from {weights}: 6 tensors\n" in words
    before, after = (
        serialization.load_tensors(weights),
        serialization.load_tensors(again / "model.safetensors"),
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    other = run(tmp_path / "other", "num_epochs=1", f"start_from={weights}", "data.size=9")
    assert (
        "5 tensors; newly initialised: 'network.layers.1.weight' is 512x64 in the record, and "
        "512x81 in the module" in (other / "experiment.log").read_text()
    )


def test_a_run_starts_from_a_record_of_any_layout_that_it_declares(folder, tmp_path):
    trained = serialization.load_tensors(folder / "model.safetensors")
    config = Train.load(folder / "config.json")
    model = components.build(dataclasses.replace(config, start_from=str(folder))).model
    for name, layout, recorder in (
        ("a.safetensors", "burn", serialization.Recorder()),
        ("a.mpk.gz", "torch", serialization.Recorder(format="msgpack", gzip=True)),
    ):
        serialization.save_file(model, tmp_path / name, recorder, layout=layout)
        result = components.build(
            dataclasses.replace(config, start_from=str(tmp_path / name))
        ).model.state_dict()
        assert all(torch.equal(tensor, result[key]) for key, tensor in trained.items())


def test_weights_that_do_not_fit_at_all_are_refused(folder):
    pytest.importorskip("andiron_lab", reason="reads records of JSON")
    config = Train.load(folder / "config.json")
    slots = folder / "checkpoints" / "step-63" / "optimizer.safetensors"
    for kind, path, words in (
        (errors.ConfigError, slots, f"start_from={slots}: no tensor fits by name; it has 18: "),
        (errors.DataError, folder / "summary.json", "summary.json: not a whole json record"),
    ):
        other = dataclasses.replace(config, start_from=str(path))
        assert words in message_of(kind, components.build, other)


SMALL = ("data=partial", "data.fraction=0.2", "model.hidden=[8]", "render=plain")
DIVERGING = (*SMALL, "optimizer=sgd", "lr=0.5")  # its second epoch is the best


def test_the_weights_of_the_best_checkpoint_are_tested_on_request(tmp_path):
    best = run(tmp_path / "best", *DIVERGING, "num_epochs=3", "test_weights=best")
    ended = run(tmp_path / "ended", *DIVERGING, "num_epochs=2")
    summary, other = read(best, "summary.json"), read(ended, "summary.json")
    assert summary["weights"] == {"test": "best, of epoch 2"}
    assert other["weights"] == {"test": "last"}
    rows = [
        [row for row in value["metrics"] if row["split"] == "test"] for value in (summary, other)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 2
    assert summary["worst_classes"] == other["worst_classes"]
    assert (best / "model.safetensors").read_bytes() != (ended / "model.safetensors").read_bytes()


@pytest.mark.parametrize("checkpoints", ["checkpoint=last", "~checkpoint"])
def test_the_best_cannot_be_tested_where_no_checkpoint_keeps_it(command, checkpoints):
    ended = command("hydra.run.dir=run", "test_weights=best", checkpoints)
    assert ended.code == 2 and ended.problems == [
        "test_weights=best: no checkpoint keeps the best weights; give "
        "checkpoint=last_and_best, or a checkpoint.metric that chooses them"
    ]


def test_the_summary_has_the_rates_of_the_last_update(folder):
    assert read(folder, "summary.json")["last_lr"] == {"base": 1e-3}

"""docs/from_timm.md and docs/from_transformers.md run, and what they say of the runs holds."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from in_process import called, page_ran

import andiron
from andiron.data import ImageBatcher
from andiron.shell.training import train
from andiron.wings.trained import evaluate
from proofs.lab_parts import rerun

ROOT = Path(__file__).resolve().parents[2]
MEAN = STD = (0.5, 0.5, 0.5)  # of timm's test_resnet


def ran_page(name, folder, monkeypatch):
    """The lines printed by the commands of a page, which ran in the folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    text = (ROOT / "docs" / name).read_text(encoding="utf-8").replace("$PWD", str(folder))
    return "".join(output for _, output in page_ran(text, ROOT, {}))


@pytest.fixture(scope="module")
def of_timm(tmp_path_factory):
    """The folder in which from_timm.md ran, and what it printed."""
    pytest.importorskip("timm")
    folder = tmp_path_factory.mktemp("timm")
    with pytest.MonkeyPatch.context() as patch:
        return folder, ran_page("from_timm.md", folder, patch)


def read(path):
    return json.loads(path.read_text())


def test_the_page_of_timm_runs_and_its_weights_stand_in_the_record(of_timm):
    folder, said = of_timm
    record = read(folder / "runs/timm/provenance.json")["start_from"]

    assert f"pixels are normalised by the network's own mean {MEAN} and std {STD}" in said
    assert "90 tensors; newly initialised: 'network.fc.weight' is 1000x96 in the" in said
    assert list(record["files"]) == ["weights.pth"] and len(record["files"]["weights.pth"]) == 64
    assert record["new"] == ["network.fc.weight", "network.fc.bias"]
    assert record["prefix"] == ["", "network."] and record["left"] == []
    assert len(record["loaded"]) == 90


def test_the_normalisation_of_the_network_is_recorded_and_predict_repeats_it(of_timm):
    folder, _ = of_timm
    run = andiron.load(folder / "runs/timm")
    picture = folder / "photos/dark/0.png"

    assert run.preprocessing.batcher == ImageBatcher(mean=MEAN, std=STD)
    raw = torch.as_tensor(andiron.data.image_folder(
        path=str(folder / "photos"), size=32, valid=0.1, test=0.1, split_seed=0
    ).train.__getitems__([0]).inputs)  # fmt: skip
    batch = run.preprocessing.batcher(andiron.data.RawBatch(raw, torch.zeros(1)), run.device)
    expected = (raw.double() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(
        3, 1, 1
    )
    torch.testing.assert_close(batch.inputs, expected.float(), rtol=0, atol=1e-5)  # of a sum
    (predicted,) = run.predict(picture)
    assert predicted.label in ("dark", "light")


def test_a_resumed_run_does_not_read_the_weights_again(of_timm, tmp_path):
    folder, _ = of_timm
    copy = shutil.copytree(folder / "runs/timm", tmp_path / "run")
    hidden = (folder / "weights.pth").rename(folder / "hidden")
    try:
        ended = called(train.main, f"resume={copy}", "num_epochs=3", cwd=folder)
        measured = called(evaluate.main, copy, cwd=folder)
    finally:
        hidden.rename(folder / "weights.pth")

    assert (ended.code, ended.errors, measured.code) == (0, "", 0)
    after, before = (read(value / "provenance.json") for value in (copy, folder / "runs/timm"))
    assert after["start_from"] == before["start_from"] and len(after["resumes"]) == 1


def test_a_repeated_run_reads_a_file_of_torch_if_it_is_named(of_timm, tmp_path):
    folder, _ = of_timm
    run, weights = folder / "runs/timm", folder / "weights.pth"
    refused = called(rerun.main, run, "--into", tmp_path / "one", cwd=folder)
    again = called(rerun.main, run, "--into", tmp_path / "two", "--trust", weights, cwd=folder)

    assert refused.code == 2 and f"allow it for this file with --trust {weights}" in refused.errors
    assert again.code == 0 and "exact: " in again.output


def test_a_repeated_run_reports_other_weights(of_timm, tmp_path):
    folder, _ = of_timm
    path = folder / "weights.pth"
    state = torch.load(path, weights_only=True)
    whole = path.read_bytes()
    torch.save(state | {"fc.bias": state["fc.bias"] + 1}, path)
    try:
        run, into = folder / "runs/timm", tmp_path / "new"
        ended = called(rerun.main, run, "--into", into, "--trust", path, cwd=folder)
    finally:
        path.write_bytes(whole)

    assert "start_from.files.weights.pth: " in ended.output


def test_networks_of_libraries_receive_classes_and_channels(tmp_path):
    pytest.importorskip("timm")
    (tmp_path / "conf/model").mkdir(parents=True)
    own = "_target_: timm.create_model\nmodel_name: test_resnet\n"
    (tmp_path / "conf/model/own.yaml").write_text(own)
    for number, target in enumerate((
        ("model=timm", "model.name=test_resnet"), ("--config-dir=conf", "model=own"),
    )):  # fmt: skip
        ended = called(
            train.main, *target, "data=partial", "data.fraction=0.1", "num_updates=1",
            f"hydra.run.dir={number}", "render=plain", cwd=tmp_path,
        )  # fmt: skip
        assert (ended.code, ended.errors) == (0, "")
        network = andiron.load(tmp_path / f"{number}", trust=["timm"]).model.network
        assert (network.num_classes, network.conv1[0].in_channels) == (10, 1)


def test_the_page_of_transformers_runs(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    said = ran_page("from_transformers.md", tmp_path, monkeypatch)

    assert "names have '' in place of 'network.'" in said


@pytest.mark.parametrize(
    "given", ["{path: x, parts: 1}", "{path: x, except: fc}", "{rename: {a: b}}"]
)
def test_a_wrong_mapping_is_refused_with_what_is_allowed(given, tmp_path):
    ended = called(train.main, f"start_from={given}", cwd=tmp_path)

    allowed = "a path, or {path: x, rename: {OLD: NEW}, except: [REGEX], partial: true, other_names"
    assert ended.code == 2 and f"should be {allowed}" in ended.errors

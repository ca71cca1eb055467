"""`debug=true`: everything is tried on a few batches, in a folder outside any run."""

import json

import pytest
import torch
from in_process import called

from andiron.shell.assembly import devices
from andiron.shell.training import train
from andiron_lab.ask import bit_comparison

SMALL = ("debug=true", "model.hidden=[8]", "render=plain")


def test_everything_is_tried_and_a_resume_is_compared(here):
    ended = called(train.main, *SMALL, "averages=swa", "num_epochs=50", "log_every=7")
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.endswith(
        "debug: everything ran, and a stopped and resumed run has the same bits\n"
    )
    (folder,) = here.glob("outputs/debug/????-??-??/*")
    assert [*here.glob("outputs/*")] == [here / "outputs" / "debug"]
    assert {path.name for path in folder.iterdir()} == {"straight", "resumed"}
    summary = json.loads((folder / "straight" / "summary.json").read_text())
    assert (summary["updates"], summary["epochs"]) == (8, 2)  # three whole batches and a half
    assert {row["split"] for row in summary["metrics"]} == {"train", "valid", "test"}
    resumes = json.loads((folder / "resumed" / "provenance.json").read_text())["resumes"]
    assert [resume["updates"] for resume in resumes] == [2]
    assert json.loads((folder / "straight" / "config.json").read_text())["debug"] is True
    latest = called(train.main, "resume=latest")
    assert latest.code == 1 and "resume=latest: no run in outputs or multirun" in latest.errors


def test_a_divergence_ends_the_run(here):
    ended = called(train.main, *SMALL, "optimizer=sgd", "lr=1e38", "on_nonfinite=ignore")
    assert ended.code == 1 and "everything ran" not in ended.output


@pytest.mark.parametrize("given, device, is_error", [
    ([], "cpu", True), ([], "cuda", False), (["deterministic=true"], "cuda", True),
], ids=str)  # fmt: skip
def test_another_resume_is_an_error_unless_a_gpu_adds_in_varying_order(
    here, monkeypatch, given, device, is_error
):
    def differs(*folders):  # after the runs, which need no GPU
        monkeypatch.setattr(devices, "resolve", lambda name: torch.device(device))
        return ["weights: 1, not 2"]

    monkeypatch.setattr(bit_comparison, "compare", differs)
    ended = called(train.main, *SMALL, *given)
    assert "differs from the uninterrupted one: weights: 1, not 2; " in ended.output + ended.errors
    assert ended.code == is_error == ("deterministic=true compares the bits" not in ended.output)


def test_a_folder_and_a_run_to_resume_are_refused(here):
    for given in ("hydra.run.dir=mine", "restart=requeued"):
        ended = called(train.main, *SMALL, given)
        assert ended.code == 2 and ended.problems == [
            "debug=true: makes runs of its own below outputs/debug; leave hydra.run.dir, "
            "hydra.sweep.dir, resume, fork_from and restart out"
        ]
    assert not (here / "mine").exists()

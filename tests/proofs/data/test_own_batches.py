"""docs/own_batches.md: each of its projects is trained, stopped, resumed, divided and evaluated."""

import math
import os
import re
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy
import pytest
import safetensors.torch
import torch
from in_process import called
from PIL import Image
from stops_at import stopping

import andiron
from andiron.shell.training import train
from andiron.wings.trained.evaluating import evaluate
from andiron.wings.trained.exports import export

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "own_batches.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?:yaml|python)\n# (\S+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PACKAGES = {
    "bert": ["transformers", "datasets"],
    "gpt-2": ["transformers", "datasets"],
    "vit": ["timm"],
    "u-net": ["segmentation_models_pytorch"],
    "detector": [],
    "graphs": ["torch_geometric"],
    "vae": [],
    "lstm": [],
    "pairs": [],
}
IN_TWO = ("detector", "vae", "lstm", "pairs")  # which need no package
DRAWS = ("vae", "detector")  # their validation draws, evaluation from a stream of its own
TRUST = ["parts", *{package: None for packages in PACKAGES.values() for package in packages}]
RUN = ("--config-dir", "conf", "batch_size=8", "num_epochs=2", "render=plain", "log_every=1")


def files(name):
    """The files of a section of the page: content by path."""
    section = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL | re.I)
    return dict(BLOCK.findall(section[1]))


def saved_texts(folder, labels):
    import datasets

    rows = []
    for number in range(40):
        tokens = [(number * 7 + place) % 50 for place in range(9)]
        length = 5 + number % 5
        mask = [int(place < length) for place in range(9)]
        row = {"input_ids": tokens[:length], "labels": number % 3}
        if labels == "tokens":
            padded = tokens[:length] + [-100] * (9 - length)
            row = {"input_ids": tokens, "attention_mask": mask, "labels": padded}
        rows.append(row)
    datasets.Dataset.from_list(rows).save_to_disk(str(folder))


def saved_photos(folder):
    for number in range(40):
        place = folder / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        pixels = numpy.full((16, 16, 3), number * 5, dtype=numpy.uint8)
        Image.fromarray(pixels).save(place)


def written(name, folder):
    """Writes the files of a project of the page, and its data, to the folder."""
    if name in ("bert", "gpt-2"):
        saved_texts(folder / {"bert": "reviews", "gpt-2": "texts"}[name],
                    {"bert": "classes", "gpt-2": "tokens"}[name])  # fmt: skip
    if name == "vit":
        saved_photos(folder)
    for path, content in files(name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


@pytest.fixture
def project(request, tmp_path, monkeypatch):
    """The folder of a project of the page, with its data."""
    for package in PACKAGES[request.param]:
        pytest.importorskip(package)
    written(request.param, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def trained(folder, name, *options):
    (experiment,) = (folder / "conf" / "experiment").glob("*.yaml")
    chosen = (f"experiment={experiment.stem}", f"hydra.run.dir={name}", *options)
    return called(train.main, *RUN, *chosen, cwd=folder)


def weights(folder, name):
    return safetensors.torch.load_file(folder / name / "model.safetensors")


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("project", PACKAGES, indirect=True)
def test_a_project_of_the_page_is_trained_resumed_and_evaluated(project, request):
    whole = trained(project, "whole")
    assert whole.code == 0, whole.errors
    with stopping(updates=5):
        assert trained(project, "part").code != 0
    resumed = called(train.main, *RUN[:2], "resume=part", "render=plain", cwd=project)
    assert resumed.code == 0, resumed.errors
    assert_same(weights(project, "whole"), weights(project, "part"))

    run = andiron.load(project / "whole", trust=TRUST)
    evaluation = evaluate(run, run.data, "valid")
    (row,) = (row for row in run.summary["metrics"]
              if (row["split"], row["metric"]) == ("valid", "loss"))  # fmt: skip
    if request.node.callspec.params["project"] in DRAWS:
        assert math.isfinite(evaluation.values["loss"])
    else:
        assert evaluation.values["loss"] == row["last"]


@pytest.mark.usefixtures("preloaded_processes")
def test_runs_of_one_and_two_processes_have_the_same_bits(tmp_path):
    """With four slices: of projects that need no package, or all that are installed."""
    chosen = PACKAGES if "ANDIRON_ALL_PROJECTS" in os.environ else IN_TWO
    names = [name for name in chosen if all(map(find_spec, PACKAGES[name]))]
    for name in names:
        written(name, tmp_path / name)
    runner, places = Path(__file__).with_name("own_batches_runs.py"), [tmp_path / n for n in names]
    ended = subprocess.run(
        [sys.executable, runner, *places], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {*IN_TWO} <= {*names}
    for project in places:
        assert_same(weights(project, "whole"), weights(project, "two"))


LORA = (
    "+param_groups.lora={match:{name:'query|value'},adapter:{rank:4,alpha:16},frozen:1epochs}",
    "+param_groups.rest={match:{name:''},exclude:{name:'lora_|classifier'},frozen:true}",
    "+task.inputs=[input_ids,labels]",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("project", ["bert"], indirect=True)
def test_adapters_of_bert_thaw_resume_merge_and_load_in_peft(project):
    peft, adapters = map(pytest.importorskip, ("peft", "andiron_lab.adapters"))
    assert trained(project, "whole", *LORA).code == 0
    with stopping(updates=3):  # before they thaw
        assert trained(project, "part", *LORA).code != 0
    assert called(train.main, *RUN[:2], "resume=part", "render=plain", cwd=project).code == 0
    assert_same(weights(project, "whole"), weights(project, "part"))
    after = weights(project, "whole")
    assert any(tensor.any() for name, tensor in after.items() if "lora_B" in name)

    load = partial(andiron.load, project / "whole", trust=TRUST)
    tokens = load().preprocessing.batcher(load().data.valid.__getitems__(range(3)), load().device)
    with torch.no_grad():
        adapted = load().model(tokens["input_ids"])
    for kind in ("adapter", "safetensors"):
        command = ("whole", "--format", kind, "--output", kind, "--trust", "datasets")
        ended = called(export.main, *command, cwd=project)
        assert ended.code == 0, ended.errors
    plain = load().model.network
    adapters.merge(plain)
    merged = safetensors.torch.load_file(project / "safetensors" / "model.safetensors")
    plain.load_state_dict(merged)
    base = {name.removeprefix("network.").replace(".base_layer", ""): tensor
            for name, tensor in after.items() if "lora_" not in name}  # fmt: skip
    for made, state in ((plain, merged), (None, base)):
        plain.load_state_dict(state)
        network = made or peft.PeftModel.from_pretrained(plain, project / "adapter").eval()
        with torch.no_grad():
            logits = network(input_ids=tokens["input_ids"]).logits
        torch.testing.assert_close(logits, adapted, rtol=0, atol=1e-6)  # sums in another order


def test_the_list_says_which_projects_need_no_python():
    listed = re.findall(r"^- \[([\w-]+)\]\(#.*?: (.*)$", PAGE, re.M)
    without = [name for name, text in listed if text.startswith("no Python")]
    assert without == [name for name, _ in listed if not any(".py" in path for path in files(name))]
    assert len(listed) == 9

"""A run on samples that are mappings: as on pairs, from the command line to export and predict."""

import json

import pytest
import safetensors.torch
import torch
from in_process import called

import andiron
from andiron import errors
from andiron.data import RawBatch
from andiron.data.augment.image_augmentation import Flip
from andiron.data.augment.sample_random import Draws
from andiron.shell.training import train
from andiron.tasks import BinaryCrossEntropy, CrossEntropy, Forward
from andiron.wings.trained import evaluate as evaluate_command
from andiron.wings.trained import predictions
from andiron.wings.trained.exports import checked_export, export

PARTS = """import torch

class Blobs(torch.utils.data.Dataset):
    def __init__(self, kind, size=61, classes=3):
        self.kind = kind
        self.targets = [number % classes for number in range(size)]
        noise = torch.randn(size, 3, generator=torch.Generator().manual_seed(0))
        self.points = noise + torch.tensor(self.targets)[:, None]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        x, y = self.points[index], self.targets[index]
        named = {"x": x.tolist(), "y": y, "name": f"blob {index}"}
        return (x, y) if self.kind == "pairs" else named

class Net(torch.nn.Module):
    def __init__(self, outputs: int = 3):
        super().__init__()
        layers = torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, outputs)
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).squeeze(-1)

def doubled(samples):
    return {"x": 2 * torch.tensor([sample["x"] for sample in samples]),
            "y": torch.tensor([sample.get("y", 0) for sample in samples])}
"""
DATA = """_target_: andiron.data.torch_dataset
train: {{_target_: own_parts.Blobs, kind: {}}}
num_classes: 3
collate: {}
"""
MODEL = "_target_: own_parts.Net\n"
PAIRS = ("data=pairs", "model=own")
OWN = ("data=own", "model=own", "task=forward", "loss=cross_entropy", "metrics=classification",
       "task.inputs=[x]", "task.targets=y")  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(PARTS)
    for path, content in {
        "data/pairs": DATA.format("pairs", "null"),
        "data/own": DATA.format("fields", "null"),
        "data/collated": DATA.format("fields", "own_parts.doubled"),
        "model/own": MODEL,
    }.items():
        (tmp_path / "conf" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / f"{path}.yaml").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(project, name, *options):
    run = ("--config-dir", "conf", "render=plain", "batch_size=16", "num_epochs=2")
    return called(train.main, *run, f"hydra.run.dir={name}", *options, cwd=project)


def weights(project, name, *options):
    ended = trained(project, name, *options)
    assert ended.code == 0, ended.errors
    return safetensors.torch.load_file(project / name / "model.safetensors")


@pytest.mark.parametrize("options", [
    (), ("grads_accumulation=2",), ("slices=4",), ("num_workers=1",), ("valid_sets_every=null",),
])  # fmt: skip
def test_mappings_give_the_bits_of_pairs(project, options):
    pairs = weights(project, "pairs", *PAIRS, *options)
    own = weights(project, "own", *OWN, *options)
    assert {name: True for name in pairs} == {
        name: torch.equal(pairs[name], tensor) for name, tensor in own.items()
    }


def test_a_run_on_mappings_is_evaluated_predicted_and_exported(project):
    weights(project, "own", *OWN)
    weights(project, "pairs", *PAIRS)
    run, pairs = (andiron.load(project / name, trust=["own_parts"]) for name in ("own", "pairs"))
    rows = [{"x": [1.0, 2.0, 3.0]}, {"x": [0.0, 0.5, 0.0]}]
    array = torch.tensor([row["x"] for row in rows])
    predicted, expected = run.predict(rows), pairs.predict(array)
    assert [one.label for one in predicted] == [other.label for other in expected]
    assert torch.equal(predicted[0].output, expected[0].output)
    assert torch.equal(run.model(array), pairs.model(array))

    says = [
        called(evaluate_command.main, name, "--worst", "3", "--trust", "own_parts", cwd=project)
        for name in ("own", "pairs")
    ]
    assert says[0].code == 0, says[0].errors
    assert says[0].output.replace("own", "") == says[1].output.replace("pairs", "")
    for kind in ("torch", "safetensors"):
        words = ("own", "--format", kind, "--output", kind, "--trust", "own_parts")
        assert called(export.main, *words, cwd=project).code == 0
    run.model.inputs = {"x": "x", "name": "name"}
    with pytest.raises(errors.DataError, match="no tensor alone in task.inputs; only models of"):
        checked_export.export(
            run.model, run.preprocessing, run.data.test.__getitems__([0]),
            None,
            kind="torch", path=project / "several" / "model.pt2", with_preprocessing=False,
        )  # fmt: skip


@pytest.mark.usefixtures("needs_lab")
def test_a_sample_of_yes_or_no_has_a_label_and_is_learned(project):
    binary = *OWN[:3], "loss=binary_cross_entropy", "metrics=binary", *OWN[5:], "lr=0.1"
    sizes = "+data.train.classes=2", "data.num_classes=2", "+model.outputs=1"
    weights(project, "own", *binary, *sizes)
    asked = andiron.load(project / "own", trust=["own_parts"]).ask.samples(from_start=True)
    followed = asked.of_sample(0)
    right = [value["samples"][0]["true"] == value["samples"][0]["predicted"]
             for value in followed["updates"]]  # fmt: skip
    updates = [value["update"] for value in followed["updates"]]
    assert followed["learned"][:1] == updates[right.index(True):][:1]
    assert {value["samples"][0]["predicted"] for value in followed["updates"]} <= {"0", "1"}


def test_rows_are_collated_as_in_training(project):
    weights(project, "collated", *OWN, "data=collated")
    run = andiron.load(project / "collated", trust=["own_parts"])
    (one,) = run.predict([{"x": [1.0, 2.0, 3.0]}])
    assert torch.equal(one.output, run.model(torch.tensor([[2.0, 4.0, 6.0]]))[0].detach())


def test_all_parts_of_mappings_together_are_measured_as_pairs_are(project):
    measured = []
    for name, options in (("own", OWN), ("pairs", PAIRS)):
        weights(project, name, *options)
        words = (name, "split=all", "--json", "--trust", "own_parts")
        ended = called(evaluate_command.main, *words, cwd=project)
        assert ended.code == 0, ended.errors
        measured.append({**json.loads(ended.output), "run": ""})
    assert measured[0] == measured[1]


@pytest.mark.parametrize("options, said", [
    (("task.targets=label",), "task: dict has no 'label', but: x, y, name; name fields"),
    (("task.inputs=[x,z]",), "task: dict has no 'z', but: x, y, name; name fields"),
    (("task.mean_over=samples",), "weights are for a configured loss, mean_over is for"),
    (("metrics=classification_pictures",), "worst_errors: inputs are [1, 3], [1]; should be"),
    (("data.num_classes=7",), "the network gives 3 outputs, and the data has 7 classes"),
    (("+augmentation.flip={_target_: andiron.data.Flip}",), "augmentation: flip cannot change"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_before_the_first_update(project, options, said):
    ended = trained(project, "wrong", *OWN, *options)
    assert ended.code != 0 and said in ended.errors
    assert not list((project / "wrong").glob("checkpoints/step-*"))


@pytest.mark.usefixtures("needs_lab")
def test_fields_are_augmented_with_the_same_random_numbers():
    from andiron_lab.masks import OnFields

    first, second = (Draws(seed=1, epoch=2, indices=torch.arange(9)) for _ in range(2))
    images, masks = torch.rand(9, 3, 4, 5), torch.randint(5, (9, 4, 5))
    changed = OnFields(["image", "mask"], Flip())({"image": images, "mask": masks, "n": 1}, first)
    alone = Flip()(RawBatch(images, torch.zeros(9)), second).inputs
    assert torch.equal(changed["image"], alone) and changed["n"] == 1
    is_flipped = (alone != images).flatten(1).any(1)
    assert 0 < is_flipped.sum() < 9
    expected = torch.where(is_flipped[:, None, None], masks.flip(-1), masks)
    assert torch.equal(changed["mask"], expected)


CHOSEN = {
    "balanced": ("data=balanced", "data@data.data={}", "data.size=50"),
    "kfold": ("data=kfold", "data@data.data={}", "data.fold=1"),
    "partial": ("data=partial", "data@data.data={}", "data.fraction=0.6"),
    "a fold of a part": ("data=kfold", "data@data.data=partial", "data@data.data.data={}"),
}  # fmt: skip


@pytest.mark.parametrize("wrapper", CHOSEN)
def test_data_sets_that_choose_samples_choose_the_same_of_mappings_and_of_pairs(project, wrapper):
    own, pairs = (
        weights(project, name, *(text.format(name) for text in CHOSEN[wrapper]), *options[1:])
        for name, options in (("own", OWN), ("pairs", PAIRS))
    )
    assert [key for key in pairs if not torch.equal(own[key], pairs[key])] == []


@pytest.mark.parametrize("wrapper", ["balanced", "kfold", "partial"])
def test_data_sets_that_choose_samples_refuse_an_unknown_class_by_name(project, wrapper):
    options = (f"data={wrapper}", "data@data.data=own", *OWN[1:])
    for field, said in (("data.targets=z", "dict have no 'z' with an entry a sample"),
                        ("task.targets=name", "dict have no 'name' with an entry a sample")):
        ended = trained(project, "own", *options, field)
        assert ended.code == 1 and said in ended.errors and "but: x, y, name" in ended.errors


@pytest.mark.parametrize("loss", [BinaryCrossEntropy(), torch.nn.BCEWithLogitsLoss()])
def test_several_answers_are_predicted_as_labels_and_not_as_one_class(loss):
    task, facts = Forward(torch.nn.Identity(), loss), {"num_classes": 3}
    logits = torch.tensor([[2.0, 1.0, -1.0]])
    (several,) = predictions.of_batch(task, logits, facts, ["x"])
    (one,) = predictions.of_batch(Forward(task.network, CrossEntropy()), logits, facts, ["x"])
    assert (several.label, several.labels, one.label) == (None, ("0", "1"), "0")
    assert [*several.probabilities.values()] == logits.sigmoid()[0].tolist()

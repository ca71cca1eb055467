"""A learner built in Python claims its run's folder: two runs never share one."""

import json
import shutil

import pytest
import torch

from andiron import errors
from andiron.data import DataLoader, digits
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.tasks import Classifier
from andiron.writers import CsvWriter, JsonLinesWriter

SPLITS = digits(valid=0.1, split_seed=0)
VALID = DataLoader(SPLITS.valid, SPLITS.batcher, batch_size=100)


class Interrupting:
    """A writer whose first point interrupts the run."""

    def write(self, point):
        raise KeyboardInterrupt

    def close(self):
        pass


def train(*place, loader=VALID, num_epochs=1, writers=None, **options):
    torch.manual_seed(1)
    model = Classifier(MLP(SPLITS.input_shape, SPLITS.num_classes, hidden=[8]))
    builder = LearnerBuilder(*place, num_epochs=num_epochs, **options)
    builder.metric_valid_numeric(Loss()).with_file_checkpointer().unrecorded()
    if writers is not None:
        builder.with_writers(*writers)
    with builder.build(model, Optimizer(torch.optim.Adam, model), 1e-3) as learner:
        learner.fit(loader, VALID)
    return learner


def files_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def validated(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["updates"] for line in lines if line["split"] == "valid"]


def test_a_second_run_in_a_folder_is_refused_and_changes_nothing(tmp_path):
    train(tmp_path)
    before = files_below(tmp_path)
    with pytest.raises(errors.RunFolderError, match="resume=True to continue it, overwrite=True"):
        train(tmp_path)
    assert files_below(tmp_path) == before


def test_the_direction_of_each_metric_is_on_record_however_a_run_ends(tmp_path):
    train(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, num_epochs=3, resume=True, writers=[Interrupting()])
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["status"], status["directions"]) == ("interrupted", {"loss": "lowest"})


def test_writers_of_ones_own_may_have_made_their_files_in_the_folder(tmp_path):
    train(tmp_path, writers=[JsonLinesWriter(tmp_path / "metrics.jsonl")])
    assert validated(tmp_path) == [2]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(errors.RunFolderError, match="holds files that no run wrote"):
        train(tmp_path / "other", writers=[JsonLinesWriter(tmp_path / "other" / "metrics.jsonl")])


def test_overwrite_replaces_the_run_and_its_values(tmp_path):
    for num_epochs in (2, 1):
        train(tmp_path, num_epochs=num_epochs, overwrite=True)
    assert validated(tmp_path) == [2]
    assert {path.name for path in (tmp_path / "checkpoints").glob("step-*")} == {"step-0", "step-2"}
    assert json.loads((tmp_path / "status.json").read_text())["status"] == "done"


def test_resume_starts_a_run_then_continues_it_to_the_weights_of_one_run(tmp_path):
    train(tmp_path / "parts", resume=True)
    resumed = train(tmp_path / "parts", num_epochs=3, resume=True)
    whole = train(tmp_path / "whole", num_epochs=3)
    assert validated(tmp_path / "parts") == validated(tmp_path / "whole") == [2, 4, 6]
    for mine, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_run_whose_checkpoints_are_out_of_sight_is_not_replaced(tmp_path, is_moved):
    train(tmp_path / "run")
    if is_moved:
        (tmp_path / "run" / "checkpoints").rename(tmp_path / "not mounted")
        (tmp_path / "run" / "checkpoints").mkdir()
    else:
        shutil.rmtree(tmp_path / "run" / "checkpoints")
    before = files_below(tmp_path)
    with pytest.raises(errors.RunFolderError, match="has trained, and .* has no checkpoint of it"):
        train(tmp_path / "run", resume=True, num_epochs=2)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("kind", [CsvWriter, JsonLinesWriter])
def test_a_file_of_others_is_not_a_writers_to_append_to(tmp_path, kind):
    path = tmp_path / ("metrics.csv" if kind is CsvWriter else "metrics.jsonl")
    content = b"mine, without a last line break" if kind is CsvWriter else b"{}\n"
    path.write_bytes(content)
    said = "this run did not write it|another program|no run wrote"
    with pytest.raises(errors.AndironError, match=said):
        train(tmp_path, writers=[kind(tmp_path if kind is CsvWriter else path)])
    assert files_below(tmp_path) == {path: content}


def test_a_finished_run_that_is_resumed_stays_as_it_is(tmp_path):
    first, again = [train(tmp_path, resume=True) for _ in range(2)]
    assert again.updates == 2 and validated(tmp_path) == [2]
    for mine, other in zip(again.model.parameters(), first.model.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_without_a_folder_each_run_has_a_new_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        train()
    folders = list((tmp_path / "outputs").glob("*/*"))
    assert [validated(folder) for folder in folders] == [[2], [2]]


def test_a_learner_that_writes_nothing_leaves_no_folder(tmp_path):
    model = Classifier(MLP(SPLITS.input_shape, SPLITS.num_classes, hidden=[8]))
    builder = LearnerBuilder(tmp_path / "run", num_epochs=1).with_writers()
    builder.build(model, Optimizer(torch.optim.Adam, model), 1e-3).fit(VALID, VALID)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options, problem", [
    ({"overwrite": True, "resume": True}, "overwrite=True: would remove the run that resume="),
    ({"resume": True}, "resume=True: needs checkpoints; add with_file_checkpointer()"),
])  # fmt: skip
def test_contradictory_choices_are_refused(tmp_path, options, problem):
    model = Classifier(MLP(SPLITS.input_shape, SPLITS.num_classes, hidden=[8]))
    builder = LearnerBuilder(tmp_path, **options)
    with pytest.raises(errors.ConfigError) as refused:
        builder.build(model, Optimizer(torch.optim.Adam, model), 1e-3)
    assert problem in str(refused.value)

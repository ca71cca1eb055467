"""Questions about samples: a plain computation gives the same losses, by the same indices."""

import json
from math import inf, isnan, nan

import pytest
import torch
from in_process import called
from torch.nn import functional

import andiron
from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config import trust
from andiron.shell.config.trust import LIST_ALONE
from andiron.shell.training import train
from andiron_lab.ask import engine, sample_questions, samples, seen_samples
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.instruments import Instrument
from andiron_lab.ask.sample_questions import SampleQuestions
from andiron.wings.runs import logged_lines

SMALL = (
    "batch_size=140", "log_every=1", "checkpoint.last=20", "num_epochs=2", "render=plain",
    "model.hidden=[8]", "writers=json_lines",
)  # fmt: skip
KINDS = {
    "plain": (),
    "accumulation, a short last update": ("grads_accumulation=3",),
    "slices": ("slices=4", "grads_accumulation=2"),
    "SAM": ("sam=0.05",),
    "a part of a fold": (
        "data=partial", "data@data.data=kfold", "data@data.data.data=digits", "data.fraction=0.7",
    ),
    "regression": ("data=diabetes", "task=regression", "metrics=regression"),
}  # fmt: skip


def run_of(folder, *options, trusted=LIST_ALONE):
    ended = called(train.main, *SMALL, *options, f"hydra.run.dir={folder}")
    assert ended.code == 0, ended.errors
    return SampleQuestions(RunFolder(folder), trusted, from_start=True)


class Plain(Instrument):
    """The losses and relative sizes of an update's samples, each computed by itself."""

    def before(self, update):
        self.losses, self.sizes, model = {}, {}, update.learner.model
        data, batcher = update.train.dataset, update.train.batcher
        for indices in update.indices:
            whole = batcher(data.__getitems__(indices), torch.device("cpu")).inputs
            largest = whole.abs().flatten(1).amax(1)
            self.sizes |= zip(indices, (largest / largest.median()).tolist(), strict=True)
        for index in (value for batch in update.indices for value in batch):
            batch = batcher(data.__getitems__([index]), torch.device("cpu"))
            with torch.no_grad():
                item = model.valid_step(batch)
            if item.output.shape == item.targets.shape:
                self.losses[index] = float(functional.mse_loss(item.output, item.targets))
            else:
                self.losses[index] = float(functional.cross_entropy(item.output, item.targets))


@pytest.mark.parametrize("kind", KINDS)
def test_the_samples_of_an_update_have_the_losses_of_a_plain_computation(tmp_path, kind):
    asked = run_of(tmp_path, *KINDS[kind])
    logged = [line for line in logged_lines.read(tmp_path / "metrics.jsonl")
              if (line.split, line.over) == ("train", "window")]  # fmt: skip
    for number in (1, logged[-1].updates):
        answer = asked.of_update(number)
        Recorded(RunFolder(tmp_path), LIST_ALONE).updates(
            number, number, plain := Plain(), from_start=True
        )
        (update,), line = answer["updates"], logged[number - 1]
        losses = {row["index"]: row["loss"] for row in update["samples"]}
        sizes = {row["index"]: row["relative_size"] for row in update["samples"]}
        assert sizes == pytest.approx(plain.sizes, rel=1e-6)  # of the batch, not of a slice
        logged_mean = line.values.get("mse", line.values["loss"])  # in the targets' unit
        assert losses == pytest.approx(plain.losses, rel=1e-4, abs=1e-6)  # batches of another size
        assert [*losses.values()] == sorted(losses.values(), reverse=True)
        assert sum(losses.values()) / len(losses) == pytest.approx(logged_mean, rel=1e-5)
        assert (update["epoch"], answer["differences"]) == (line.epoch, [])
        # rows of a table are named by their lines
        named = {row["name"].isdigit() for row in update["samples"]}
        assert named == {kind != "regression"}
    assert answer["compared"] > 0


def test_weights_label_smoothing_and_mixing_do_not_change_what_a_loss_means(tmp_path):
    rows = "".join(f"{n % 7},{n % 5},{'ab'[n % 2]},{1 + n % 3}\n" for n in range(90))
    (tmp_path / "rows.csv").write_text(f"x,y,label,w\n{rows}")
    table = "data=csv", f"data.path={tmp_path}/rows.csv", "data.target=label", "data.weight=w"
    (weighted,) = run_of(tmp_path / "w", *table, "batch_size=16").of_update(2)["updates"]
    losses = [row["loss"] for row in weighted["samples"]]
    assert len(losses) == 16 and None not in losses
    assert abs(sum(losses) / 16 - weighted["loss"]) > 1e-4  # which is weighted
    asked = run_of(tmp_path / "m", "augmentation=mixup")
    (mixed,) = asked.of_update(2)["updates"]
    with pytest.raises(errors.DataError, match="no sample has a loss of its own"):
        asked.hardest(3)
    assert {(row["loss"], row["true"]) for row in mixed["samples"]} == {(None, None)}
    assert [row["unrecorded"] for row in mixed["samples"]] == [["mixup"]] * 140
    assert mixed["loss"] > 0 and mixed["samples"][0]["drawn"] == {}


def test_the_numbers_of_augmentations_are_those_that_were_drawn(tmp_path):
    asked = run_of(tmp_path, "augmentation=flip")
    (update,) = asked.of_update(12)["updates"]
    drawn = {row["index"]: row["drawn"]["flip"][0] for row in update["samples"]}
    assert {*(tuple(row["unrecorded"]) for row in update["samples"])} == {()}

    class Flipped(Instrument):
        def before(self, update):
            data, here = update.train.dataset, torch.device("cpu")
            for index, inputs in zip(update.indices[0], update.batches[0].inputs, strict=True):
                stored = update.train.batcher(data.__getitems__([index]), here).inputs[0]
                expected = stored.flip(-1) if drawn[index] < 0.5 else stored
                assert torch.equal(inputs, expected)

    Recorded(RunFolder(tmp_path), LIST_ALONE).updates(12, 12, Flipped())


def test_one_sample_is_followed_and_the_hardest_have_the_means_of_their_losses(
    tmp_path, monkeypatch
):
    asked = run_of(tmp_path, "num_epochs=3", "lr=0.01")
    everything = [asked.of_update(number)["updates"][0] for number in range(1, 31)]
    losses = {}
    for update in everything:
        for row in update["samples"]:
            losses.setdefault(row["index"], []).append((update["update"], row))
    means = {index: sum(row["loss"] for _, row in seen) / 3 for index, seen in losses.items()}
    hardest = asked.hardest(4)["hardest"]
    assert [row["index"] for row in hardest] == sorted(means, key=means.get, reverse=True)[:4]
    assert all(row["loss"] == pytest.approx(means[row["index"]]) for row in hardest)
    assert {row["times"] for row in hardest} == {3}
    index = next(i for i, seen in losses.items() if seen[2][1]["true"] == seen[2][1]["predicted"])
    followed = asked.of_sample(index)
    assert followed == asked.of_sample(str(index))
    assert [(u["update"], u["samples"]) for u in followed["updates"]] == [
        (number, [row]) for number, row in losses[index]
    ]
    rights = [row["true"] == row["predicted"] for _, row in losses[index]]
    assert followed["learned"][0] == losses[index][rights.index(True)][0]
    with pytest.raises(errors.SelectionError, match="saw none of this index or name"):
        asked.of_sample(5000)
    unasked = SampleQuestions(RunFolder(tmp_path), LIST_ALONE)
    assert unasked.hardest(4) == asked.hardest(4)  # it takes less than a few seconds
    monkeypatch.setattr(engine, "SECONDS_UNASKED", 0.0)
    with pytest.raises(errors.SelectionError, match="30 updates have to be made again from the st"):
        unasked.hardest(1)
    assert andiron.load(tmp_path).ask.samples().of_update(3)["updates"] == [everything[2]]


def test_a_spike_is_led_to_the_update_of_its_window_and_to_a_folder_of_nonfinite(tmp_path):
    asked = run_of(tmp_path / "spike", "lr=0.01", "log_every=4")
    spike = asked.spikes(1)["spikes"][0]
    assert spike["first"] <= spike["updates"][0]["update"] <= spike["last"]
    assert spike["updates"][1]["update"] == spike["updates"][0]["update"] - 1
    assert len(spike["updates"][0]["samples"]) == 5
    ended = called(
        train.main, *SMALL, "optimizer=sgd", "lr=1e20", f"hydra.run.dir={tmp_path / 'lost'}"
    )
    assert ended.code == 1
    answer = called(samples.main, tmp_path / "lost", "--spikes", "1", "--from-start", "--json")
    (lost,) = json.loads(answer.output)["spikes"]
    assert (lost["what"], lost["first"], lost["rise"]) == ("not finite", 2, None)
    assert [update["update"] for update in lost["updates"]] == [2, 1]
    assert lost["updates"][0]["loss"] is None and answer.code == 0
    text = called(samples.main, tmp_path / "spike", "--spikes", "1")
    assert "rose to" in text.output and "predicted" in text.output and "{}" not in text.output


def test_an_update_is_compared_up_to_the_next_one_on_record_or_said_not_to_be(tmp_path):
    run_of(tmp_path / "bits", "log_every=4", "num_epochs=1")
    file = tmp_path / "bits/metrics.jsonl"
    first, *lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([json.dumps(json.loads(first) | {"loss": 7.0}) + "\n", *lines]))
    (tmp_path / "bits/nonfinite/update-3").mkdir(parents=True)  # of a run that went on
    words = "--from-start", "--json"
    ended = called(samples.main, tmp_path / "bits", "--update", "2", *words)
    answer = json.loads(ended.output)
    assert ended.code == 1 and "update 4" in answer["differences"][0]
    assert [update["update"] for update in answer["updates"]] == [2]
    ended = called(samples.main, tmp_path / "bits", "--spikes", "9", *words)
    assert "not finite" not in {load["what"] for load in json.loads(ended.output)["spikes"]}

    lost = "optimizer=sgd", "lr=1e20", "log_every=20", f"hydra.run.dir={tmp_path / 'lost'}"
    assert called(train.main, *SMALL, *lost).code == 1
    for words in (("--update", "1"), ("--hardest", "2"), ("--index", "0")):
        ended = called(samples.main, tmp_path / "lost", *words, "--from-start")
        assert ended.code == 0, ended.errors
        assert "the run logged and saved nothing there" in ended.output


def test_values_that_are_not_finite_are_spikes_and_rank_first(tmp_path):
    asked = run_of(tmp_path, "optimizer=sgd", "lr=1e20", "on_nonfinite=ignore", "num_epochs=1")
    spike = asked.spikes(1)["spikes"][0]
    assert isnan(spike["value"]) and spike["rise"] == inf
    assert spike["updates"][0]["update"] == spike["first"] and len(spike["updates"]) == 2
    heights = [{"loss": loss, "grad_norm": 1.0} for loss in (2.0, 0.0, nan, None)]
    assert sorted(heights, key=sample_questions._height) == [heights[n] for n in (1, 3, 0, 2)]
    sizes = [seen_samples._relative_size(*value) for value in (
        ([0.0], [0.0]), ([3.0], [0.0]), ([0.0], [2.0]), ([1.0, 6.0], [1.0, 2.0]), ([], []),
    )]  # fmt: skip
    assert sizes == [1.0, inf, 0.0, 3.0, None]
    assert isnan(seen_samples._relative_size([inf, 1.0], [inf, 1.0]))


OWN = """
import torch
from torch.utils.data import IterableDataset

class Few(list):
    def __init__(self):
        super().__init__((torch.full((3,), float(n)), n % 2) for n in range(6))
    def sample_name(self, index):
        return f"number {index}"

class Stream(IterableDataset):
    def __iter__(self):
        return iter(Few())
"""


def test_a_sample_may_be_drawn_twice_and_a_stream_has_none_to_follow(tmp_path, monkeypatch):
    (tmp_path / "few_samples.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    few = "{_target_: few_samples.Few}"

    def asked(at, kind, *options):
        given = f"train={{_target_: few_samples.{kind}}}", f"valid={few}", f"test={few}"
        given = [f"{at}.{value}" for value in (*given, "num_classes=2")]
        trusted = trust.of_user([], ["few_samples"])
        options += "trust=[few_samples]", "batch_size=15"
        return run_of(tmp_path / kind, *options, *given, trusted=trusted)

    data = "data=balanced", "data@data.data=torch_dataset", "data.size=30"
    twice = asked("data.data", "Few", *data)
    seen = twice.of_sample("number 3")
    assert len(seen["updates"]) > 1 and max(len(value["samples"]) for value in seen["updates"]) > 1
    stream = asked("data", "Stream", "data=torch_dataset", "data.samples_per_epoch=30")
    assert len(stream.of_update(1)["updates"][0]["samples"]) == 15
    for ask in (stream.of_sample, stream.hardest):
        with pytest.raises(errors.SelectionError, match="is another sample in each epoch; ask by"):
            ask(1)

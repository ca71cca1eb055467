"""Runs that stopped, ended or changed in unusual places are made again as they were."""

import textwrap

import pytest
import torch

import andiron
from andiron import errors
from andiron.run_folder import RunFolder
from andiron.shell.config import trust
from andiron.shell.training import train
from andiron_lab.ask import engine
from andiron_lab.ask.engine import Recorded
from andiron_lab.ask.instruments import Instrument
from in_process import called

SMALL = ("batch_size=300", "model.hidden=[8]", "log_every=2", "num_epochs=3", "render=plain",
         "checkpoint.last=9", "trust=[asked_parts]")  # fmt: skip
OWN = """
    import os
    import torch

    class Watches:
        def after_update(self, learner, step):
            interrupter, live = learner.interrupter, os.environ.get("LIVE")
            if live == "end" and step.updates == 7:
                learner.end("enough")
            if live == "ask" and step.updates in (3, 5):
                interrupter.request("validate")
                interrupter.request("save")
            if live == "stop" and step.updates == 7:
                interrupter.stop("now")
            if live == "stop in validation" and step.updates == 8:
                stop = lambda: interrupter.stop("now") or interrupter.asked
                interrupter.at = lambda split, *at: stop() if split != "train" else None

    class Noise:
        def __call__(self, raw, draws):
            generator = torch.Generator()
            generator.seed()  # of the system: no function of counters
            mask = torch.rand(raw.inputs.shape, generator=generator) < 0.5
            return raw._replace(inputs=raw.inputs * mask)
"""
OBSERVED = "+observers.x._target_=asked_parts.Watches"
CASES = {
    "ends": ("end", (0,), [], [7]),
    "ends where it saves": ("end", (0,), ["checkpoint.every=7"], [7]),
    "requests": ("ask", (0,), [], [3, 5, 10, 15]),
    "resumes with other batches": ("stop", (130,), ["batch_size=200", "lr=0.02"], [7, 18]),
    "stops in a validation, and is left": ("stop in validation", (130,), None, [8]),
    "stops in a validation, and resumes": ("stop in validation", (130,), [], [8, 15]),
}


@pytest.fixture(autouse=True)
def own_parts(tmp_path, monkeypatch):
    (tmp_path / "asked_parts.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(tmp_path)


def asked(folder):
    return Recorded(RunFolder(folder), trust.of_user([], ["asked_parts"]))


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_stops_or_ends_anywhere_is_made_again(tmp_path, monkeypatch, name):
    live, codes, resumed, last = CASES[name]
    monkeypatch.setenv("LIVE", live)
    folder, options = tmp_path / "run", [*SMALL, "validate_every=4", OBSERVED]
    options += resumed or [] if codes == (0,) else []
    assert called(train.main, *options, f"hydra.run.dir={folder}").code in codes
    monkeypatch.delenv("LIVE")
    if resumed is not None and codes != (0,):
        more = [f"resume={folder}", *resumed, "trust=[asked_parts]", "scheduler=constant",
                "resume_allow=[batch_size,lr,scheduler]"]  # fmt: skip
        ended = called(train.main, *more)
        assert ended.code == 0, ended.errors
    run = asked(folder)
    assert last[-1] == run.last and {*last} <= {*run.saved}
    for first, end, start in ((1, run.last, 0), (last[0], last[0], None), (2, run.last - 1, 0)):
        stretch = run.updates(first, end, start=start, from_start=True)
        assert stretch.differences == [] and stretch.values


class Counts(Instrument):
    def __init__(self):
        self.norms = []

    def computed(self, update):
        self.norms.append(float(sum(gradient.norm() for gradient in update.gradients.values())))


def test_a_run_that_is_loaded_makes_its_updates_again(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    options = ["checkpoint.last=1" if o.startswith("checkpoint") else o for o in SMALL]
    assert called(train.main, *options, f"hydra.run.dir={folder}").code == 0
    run, counts = andiron.load(folder).ask, Counts()
    missing = "no checkpoint before update 5: 4 updates have to be made again from the start, abou"
    unasked = str(run.updates(5, 6))
    monkeypatch.setattr(engine, "SECONDS_UNASKED", 0.0)
    with pytest.raises(errors.SelectionError, match=missing):
        run.updates(5, 6, counts)
    stretch = run.updates(5, 6, counts, from_start=True)
    assert unasked == str(stretch)
    assert len(counts.norms) == 2 and all(counts.norms)
    assert str(stretch).startswith("updates 1 to 6, made again: 0 tensors and ")
    assert str(stretch).endswith("logged values have the bits of the run")
    for first, last in ((0, 2), (3, 2), (15, 16)):
        with pytest.raises(errors.SelectionError, match="begins after update 0 and ends after"):
            run.updates(first, last)


def test_a_fork_begins_at_its_parent_and_names_one_that_changed(tmp_path):
    parent, folder = tmp_path / "parent", tmp_path / "run"
    assert called(train.main, *SMALL, f"hydra.run.dir={parent}").code == 0
    options = f"fork_from={parent}@10", "num_epochs=4", "lr=0.01", "checkpoint.last=1", SMALL[-1]
    assert called(train.main, *options, f"hydra.run.dir={folder}").code == 0
    run = asked(folder)
    stretch = run.updates(11, 20)
    assert (stretch.start, stretch.differences) == (10, []) and stretch.tensors
    with pytest.raises(errors.SelectionError, match="begins after update 10"):
        run.updates(9, 12)


def test_draws_from_a_generator_of_its_own_are_found_and_named(tmp_path):
    folder, noise = tmp_path / "run", "+augmentation.noise._target_=asked_parts.Noise"
    assert called(train.main, *SMALL, noise, f"hydra.run.dir={folder}").code == 0
    stretch = asked(folder).updates(1, 5)
    first = stretch.differences[0]
    assert first.updates == 2 and first.where.startswith("metrics.jsonl: train")
    said = str(stretch)
    assert ", by " in said and "(relative " in said and "loss" in said.splitlines()[2]
    assert "nothing that is on record changed" in said and "your own random generators" in said


def test_an_update_that_is_no_longer_finite_is_named_and_one_of_the_run_is_compared(
    tmp_path, finished_digits
):
    class Poison(Instrument):
        def before(self, update):
            with torch.no_grad():
                next(update.learner.model.parameters()).fill_(torch.nan)

    torch.manual_seed(3)
    drawn = torch.rand(2)
    torch.manual_seed(3)
    stretch = Recorded(RunFolder(finished_digits), trust.LIST_ALONE).updates(30, 42, Poison())
    assert torch.equal(torch.rand(2), drawn)  # a question draws none of the program's numbers
    *_, last = stretch.differences
    assert str(last) == "the run, update 30: loss or gradient is NaN or infinite, not finite"
    assert (stretch.start, stretch.last) == (21, 29)

    options = "log_every=1", "lr=1e30", "num_epochs=1", "render=plain", "model.hidden=[8]"
    folder = tmp_path / "run"
    assert called(train.main, *options, f"hydra.run.dir={folder}").code == 1
    run = Recorded(RunFolder(folder), trust.LIST_ALONE)
    (saved,) = folder.glob("nonfinite/*")
    number = int(saved.name.removeprefix("update-"))
    stretch = run.updates(1, number, from_start=True)
    assert (stretch.last, stretch.differences, stretch.values > 0) == (number - 1, [], True)


@pytest.mark.parametrize("option", ["log_every=0.01minutes", "validate_every=1minute"])
def test_a_run_that_followed_a_clock_is_refused(tmp_path, option):
    options = option, "num_epochs=1", "render=plain", "model.hidden=[8]"
    folder = tmp_path / "run"
    assert called(train.main, *options, f"hydra.run.dir={folder}").code == 0
    with pytest.raises(errors.RunFolderError) as raised:
        Recorded(RunFolder(folder), trust.LIST_ALONE).updates(1, 2, from_start=True)
    assert str(raised.value) == (
        f"{folder}: {option} followed a clock, which cannot be made again; ask a run that logs "
        "and validates by updates or epochs"
    )


def test_a_log_larger_than_any_run_writes_is_refused_unread(tmp_path):
    assert called(train.main, *SMALL[:-1], f"hydra.run.dir={tmp_path / 'run'}").code == 0
    with (tmp_path / "run" / "experiment.log").open("ab") as log:
        log.truncate(10**11)  # of holes: it takes no room
    with pytest.raises(errors.DataError, match=r"experiment\.log: cannot be read .*more than the"):
        andiron.load(tmp_path / "run").ask.samples().spikes(1)

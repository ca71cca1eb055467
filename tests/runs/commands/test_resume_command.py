"""`resume=` on the command line: the run resumes in its folder, changed options are checked, and no
run starts again unless that is requested.
"""

import json
import shutil
from pathlib import Path

import pytest

from andiron import checkpoint
from andiron.run_folder import RunFolder
from andiron.shell.config.schema import Train
from andiron.shell.run import metadata, run_record, status as run_status
from andiron.shell.training import train
from andiron.wings.runs import plan
from conftest import status
from in_process import called
from runs_made import content
from stops_at import stopping

RUN = (
    "hydra.run.dir=run", "num_epochs=2", "data=partial", "data.fraction=0.2", "model.hidden=[8]",
    "render=plain",
)  # fmt: skip


def trained(*arguments, cwd=None):
    """`python train.py` in this process: exit code, standard output and standard error."""
    ended = called(train.main, *arguments, cwd=cwd)
    return ended.code, ended.output, ended.errors


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs to copy: `whole`, and `stopped`, which was interrupted after its third update."""
    whole, stopped = (tmp_path_factory.mktemp(name) for name in ("whole", "stopped"))
    assert trained(*RUN, cwd=whole)[0] == 0
    with stopping(updates=3):
        assert trained(*RUN, cwd=stopped)[0] == 130
    return {"whole": whole / "run", "stopped": stopped / "run"}


@pytest.fixture
def stopped(here, runs):
    """A run in `run` that was interrupted after its third update."""
    return shutil.copytree(runs["stopped"], Path("run"))


@pytest.fixture
def finished(here, runs):
    """A run in `run` that has trained all its epochs."""
    return shutil.copytree(runs["whole"], Path("run"))


@pytest.fixture(scope="module")
def three_epochs(tmp_path_factory):
    """A run of three epochs that was never interrupted."""
    folder = tmp_path_factory.mktemp("three") / "straight"
    assert trained(f"hydra.run.dir={folder}", "num_epochs=3", *RUN[2:])[0] == 0
    return folder


def files_of(folder):
    """Every file's content and the time it was written."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def updates_in(folder):
    return [
        json.loads(line)["updates"] for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def have_the_same_weights(*folders):
    one, other = ((folder / "model.safetensors").read_bytes() for folder in folders)
    return one == other


def change(run_dir, name, changed):
    """Changes a file of a run, and puts the change on the record."""
    content = json.loads((run_dir / name).read_text())
    changed(content)
    (run_dir / name).write_text(json.dumps(content))
    run_record.accept(RunFolder(run_dir))


REMOVES = "overwrite=true: would remove the run that resume={} resumes; leave one of them out"
REFUSED = {  # beside the stopped run
    "resume_allow=[lr]": "resume_allow=[lr]: allows changes to a resumed run, and none is resumed; "
                         "name it with resume=<run folder>, or leave resume_allow out",
    "resume=run lrr=3": "lrr: no such option; did you mean 'lr'?",
    "resume=run lrr=3 optimizer=adamm": "did you mean 'adam'?",
    "resume=nowhere": "nowhere: holds no run: there is no such folder; name a run's",
    "resume=run -m seed=1,2": "resumes one run; leave -m out, or give resume=auto, which resumes",
    "-m resume=run,elsewhere": "resume=run,elsewhere: resumes one run; leave -m out, or give",
    "resume=auto": "without a fixed folder every start would be a new run; give hydra.run.dir=",
    "resume=run hydra.run.dir=other":
        "hydra.run.dir=other: a resumed run stays in its folder, HERE/run; leave it out",
    "resume=run model.hidden=[9] resume_allow=[optimizer,lr]": "model.hidden=[9]",
    "resume=run optimizer=sgd resume_allow=[optimizer,lr]": "optimizer._target_=",
    "resume=run param_groups=no_decay resume_allow=[optimizer,lr]": "param_groups",
    "resume=run optimizer.amsgrad=true resume_allow=[optimizer]":
        "optimizer.amsgrad=True: the run was recorded with False, and a resumed run keeps it",
    "resume=run overwrite=true": REMOVES.format("HERE/run"),
    "hydra.run.dir=run restart=requeued overwrite=true": REMOVES.format("auto"),
    **{f"resume=run lr=0.1 resume_allow={said}": "names no option that can be allowed; allowed: "
       for said in ("true", "1", "[1,2]", "[null]", "{lr:1}")},
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_a_wrong_resume_is_refused_and_changes_nothing(stopped, here, line):
    before = files_of(here)
    code, _, error = trained(*line.split())
    assert code in (1, 2) and REFUSED[line].replace("HERE", str(here)) in error
    assert files_of(here) == before


def test_an_interrupted_run_is_resumed_in_its_folder_to_the_same_bits(stopped, here, runs):
    assert status(stopped)["status"] == "interrupted"
    code, said, _ = trained("resume=run")

    assert code == 0 and status(stopped)["status"] == "done"
    assert (
        f"resuming from {here}/run/checkpoints/step-3: update 3, epoch 1, after 3 of its 5 batches"
        in said
    )
    for name in ("model.safetensors", "param_groups.json", "data.json"):
        assert (here / "run" / name).read_bytes() == (runs["whole"] / name).read_bytes()
    assert updates_in(here / "run") == updates_in(runs["whole"])
    assert not (here / "outputs").exists()


def test_the_newest_run_is_resumed_by_its_age(here):
    for name in "ab":
        run = (f"hydra.run.dir=outputs/2026-01-01/{name}", *RUN[1:])
        assert trained(*run)[0] == 0
    code, said, _ = trained("resume=latest", "num_epochs=3", "render=plain")
    assert code == 0
    assert f"resuming from {here}/outputs/2026-01-01/b/checkpoints" in said


@pytest.mark.usefixtures("needs_lab")
def test_a_name_is_part_of_the_folders_and_the_layers_shown_change_no_bit(here, runs):
    code, said, _ = trained("name=mine", "show_layers=true", *RUN[1:])
    assert code == 0 and "│ layers.1 Linear  │ 64x8   │" in said
    (folder,) = here.glob("outputs/????-??-??/*-mine")
    assert " run mine\n" in (folder / "experiment.log").read_text()
    weights = "model.safetensors"
    assert (folder / weights).read_bytes() == (runs["whole"] / weights).read_bytes()
    code, _, message = trained("resume=latest", "name=other")
    assert code == 2
    assert "name=other: the run was recorded with mine, and a resumed run keeps it" in message


def test_a_finished_run_says_that_nothing_is_left_and_is_not_touched(here, finished):
    before = files_of(here)
    words = "is done, all 2 epochs: nothing is left to do; num_epochs=... trains it for longer"
    for options in ((), ("log_every=5",), ("~checkpoint",), ("restart=requeued",)):
        assert trained("resume=run", *options)[:2] == (0, f"{here}/run {words}\n")
    assert files_of(here) == before


def test_a_finished_run_resumed_for_more_epochs_equals_a_longer_run(here, finished, three_epochs):
    code, said, _ = trained("resume=run", "num_epochs=3")
    assert code == 0 and "changed: num_epochs: 2 -> 3\n" in said

    assert have_the_same_weights(here / "run", three_epochs)
    assert Train.load(here / "run" / "config.json").num_epochs == 3
    (entry,) = json.loads((here / "run" / "provenance.json").read_text())["resumes"]
    assert (entry["updates"], entry["changes"]) == (10, {"num_epochs": [2, 3]})
    assert entry["command"][1:] == ["resume=run", "num_epochs=3"]


def test_guarded_options_have_to_be_allowed_and_are_put_on_the_record(stopped):
    before = files_of(stopped)
    code, _, error = trained("resume=run", "lr=0.1", "batch_size=32")
    assert code == 2
    assert error.splitlines()[1:] == [
        "  lr=0.1: the run was recorded with 0.001, and was trained with that so far; "
        "give resume_allow=[lr] to resume with the new value",
        "  batch_size=32: the run was recorded with 64, and was trained with that so far; "
        "give resume_allow=[batch_size] to resume with the new value",
    ]
    assert files_of(stopped) == before

    changed = "lr=0.1", "batch_size=32", "seed=7", "resume_allow=[lr,batch_size,seed]"
    code, said, _ = trained("resume=run", *changed)
    assert code == 0
    assert (
        "changed: lr: 0.001 -> 0.1\nchanged: scheduler.lr: 0.001 -> 0.1\nchanged: batch_size: 64 "
        "-> 32\n" in said
    )
    assert "update 3, epoch 1, after 6 of its 9 batches" in said  # 3 batches of 64 are 6 of 32
    (entry,) = json.loads((stopped / "provenance.json").read_text())["resumes"]
    assert entry["changes"] == {
        "lr": [0.001, 0.1], "scheduler.lr": [0.001, 0.1], "batch_size": [64, 32], "seed": [42, 7],
    }  # fmt: skip
    rates = [
        line.get("lr/base")
        for line in map(json.loads, (stopped / "metrics.jsonl").read_text().splitlines())
    ]
    # of the last window, before the means of the epoch, the validation and the test
    assert rates[-4] == 0.1
    config = Train.load(stopped / "config.json")
    assert (config.lr, config.batch_size) == (0.1, 32)
    state = checkpoint.newest_whole(stopped.absolute() / "checkpoints")[1].state
    assert state["seed"] == 7  # of the updates too


def test_a_changed_option_can_return_to_the_default_of_conf(here, finished):
    for workers, epochs in ((1, 3), (0, 4)):
        assert trained("resume=run", f"num_workers={workers}", f"num_epochs={epochs}")[0] == 0
        assert Train.load(here / "run" / "config.json").num_workers == workers
    recorded = json.loads((here / "run" / "provenance.json").read_text())["resumes"]
    assert [entry["changes"]["num_workers"] for entry in recorded] == [[0, 1], [1, 0]]


def test_another_shape_starts_from_the_weights_of_an_interrupted_run(stopped, here):
    code, said, _ = trained("hydra.run.dir=other", *RUN[1:], "lr=0.5", "start_from=run")
    assert code == 0
    assert f"weights from {here}/run/checkpoints/step-3/model.safetensors: 4 tensors\n" in said


def test_the_record_counts_and_a_given_value_that_the_current_conf_has_too(stopped):
    def recorded_by_another_conf(plain):
        plain.update(log_every=7, lr=0.5, validate_first=True)  # other defaults then
        plain["scheduler"]["lr"] = 0.5
        plain["optimizer"].update(weight_decay=0.25)

    change(stopped, "config.json", recorded_by_another_conf)
    given = "log_every=20", "lr=0.001", "optimizer=adam", "resume_allow=[lr,optimizer]"
    assert trained("resume=run", *given)[0] == 0
    config = Train.load(stopped / "config.json")
    assert (config.log_every, config.lr, config.scheduler["lr"]) == (20, 0.001, 0.001)
    assert (config.optimizer["weight_decay"], config.validate_first) == (0.0, True)


def test_a_changed_epoch_length_is_refused_if_the_schedule_depends_on_it(here):
    with stopping(updates=3):
        assert trained(*RUN, "scheduler=cosine")[0] == 130
    before = status(here / "run")
    code, _, error = trained("resume=run", "batch_size=32", "resume_allow=[batch_size]")
    words = "batch_size: the schedule was built for 5 updates an epoch, not 9; leave it, or resume"
    assert code == 2 and words in error
    assert status(here / "run") == before
    allowed = "resume_allow=[batch_size,scheduler]"
    assert trained("resume=run", "batch_size=32", "scheduler=constant", allowed)[0] == 0


def test_fewer_epochs_than_are_made_are_refused(here, finished):
    before = content(here)
    code, _, error = trained("resume=run", "num_epochs=1")
    words = "num_epochs=1: the run has completed 2 epochs and 0 batches; give at least as many, or"
    assert code == 2 and words in error
    log = here / "run" / "experiment.log"
    assert content(here) | {log: b""} == before | {log: b""}


def test_values_that_equal_lr_by_chance_are_not_allowed_with_it(here):
    assert trained(*RUN, "lr=0.1", "model.dropout=0.1")[0] == 0
    code, _, error = trained(
        "resume=run", "lr=0.5", "model.dropout=0.5", "num_epochs=3", "resume_allow=[lr]"
    )
    words = "model.dropout=0.5: the run was recorded with 0.1, and a resumed run keeps it"
    assert code == 2 and words in error


def test_a_group_with_recorded_options_can_be_chosen_anew_or_left_out(here):
    recorded = (
        "early_stopping=patience", "early_stopping.patience.patience=3", "checkpoint.last=4",
    )  # fmt: skip
    assert trained(*RUN, *recorded)[0] == 0
    assert trained("resume=run", "num_epochs=3", "~early_stopping")[0] == 0
    assert Train.load(here / "run" / "config.json").early_stopping is None
    anew = "early_stopping=goal", "checkpoint=milestones"
    assert trained("resume=run", "num_epochs=4", *anew)[0] == 0
    config = Train.load(here / "run" / "config.json")
    assert (
        [*config.early_stopping], config.checkpoint["keep_every_updates"],
        config.checkpoint["last"],
    ) == (["goal"], 1000, 2)  # fmt: skip


def test_a_run_resumes_without_the_weights_it_started_from(stopped, here):
    assert trained("hydra.run.dir=second", *RUN[1:], "start_from=run")[0] == 0
    (here / "run").rename(here / "gone")
    assert trained("resume=second", "num_epochs=3")[0] == 0


def test_a_run_that_stopped_early_says_so_and_how_to_continue(here):
    stopping = ("early_stopping=goal", "early_stopping.goal.goal=9.0")
    assert trained(*RUN, *stopping)[0] == 0
    before = files_of(here / "run")
    for more in ([], ["num_epochs=3"]):  # no update follows: the option is not recorded
        code, said, _ = trained("resume=run", *more)
        assert (code, said) == (
            0,
            f"{here}/run is done, stopped early after 1 of 2 epochs; change early_stopping to "
            "train on\n",
        )
        assert files_of(here / "run") == before
    assert trained("resume=run", "~early_stopping", "num_epochs=3")[0] == 0
    assert json.loads((here / "run" / "summary.json").read_text())["epochs"] == 3


def test_the_same_command_repeats_no_finished_run_without_checkpoints(here):
    command = (*RUN, "restart=requeued", "~checkpoint")
    assert trained(*command)[0] == 0
    before = files_of(here)
    code, said, _ = trained(*command)
    assert code == 0 and "nothing is left to do" in said
    assert files_of(here) == before


@pytest.mark.parametrize("content", [
    "null", "[", "{}", '{"data": null}', '{"data": {"sha256": "0"}, "resumes": 5}',
    '{"data": {"sha256": "0"}, "resumes": [5]}',
])  # fmt: skip
def test_a_damaged_provenance_is_reported(stopped, content):
    (stopped / "provenance.json").write_text(content)
    code, _, error = trained("resume=run")
    assert code == 1 and "provenance.json: " in error and "damaged" in error


def test_damaged_overrides_are_reported_unless_the_record_is_enough(stopped):
    (stopped / ".hydra" / "overrides.yaml").write_text("{")
    code, _, error = trained("resume=run", "num_epochs=3")
    assert code == 1 and "overrides.yaml: cannot be read" in error
    assert "give resume=<run folder> alone" in error
    assert trained("resume=run")[0] == 0


def test_an_allowed_option_that_cannot_be_trained_leaves_the_record(here, finished, three_epochs):
    config = (here / "run" / "config.json").read_bytes()
    code, _, error = trained(
        "resume=run", "num_epochs=3", "loss=mean_squared_error", "resume_allow=[loss]"
    )
    assert code == 1 and "MeanSquaredError cannot compare" in error
    assert (here / "run" / "config.json").read_bytes() == config

    assert trained("resume=run")[0] == 0 and status(here / "run")["status"] == "done"
    assert trained("resume=run", "num_epochs=3")[0] == 0
    assert have_the_same_weights(here / "run", three_epochs)


def test_uncommitted_code_changes_are_reported_and_kept(stopped, monkeypatch):
    gather = metadata.Record.origin

    def with_patch(patch):
        name = f"dirty-{patch}.patch" if patch else None

        def gathered(facts):
            origin, _ = gather(facts)
            origin["git"]["uncommitted"] = name
            return origin, {name: patch.encode()} if patch else {}

        monkeypatch.setattr(metadata.Record, "origin", gathered)

    for number, (patch, is_new) in enumerate(
        [("one", True), ("one", False), ("two", True), ("", True)], start=1
    ):
        with_patch(patch)
        code, said, _ = trained("resume=run", f"num_epochs={2 + number}")
        assert code == 0
        assert ("not guaranteed: uncommitted " in said) == is_new
    assert (stopped / "dirty-two.patch").read_text() == "two"
    entries = json.loads((stopped / "provenance.json").read_text())["resumes"]
    assert [entry["git"]["uncommitted"] for entry in entries[:3]] == [
        "dirty-one.patch", "dirty-one.patch", "dirty-two.patch",
    ]  # fmt: skip


def test_a_sweep_that_was_interrupted_is_taken_up_by_the_same_command(here):
    sweep = ("-m", "seed=1,2", "hydra.sweep.dir=sweep", "hydra/launcher=basic")
    command = (*sweep, *RUN[1:], "restart=requeued")
    with stopping(updates=3, seed=2):
        assert trained(*command)[0] == 75
    assert [status(here / "sweep" / job)["status"] for job in "01"] == ["done", "interrupted"]
    code, said, _ = trained(*command)
    assert [code, *(status(here / "sweep" / job)["status"] for job in "01")] == [0, "done", "done"]
    assert f"{here}/sweep/0 is done" in said
    assert f"resuming from {here}/sweep/1/checkpoints/step-3" in said


def test_without_any_checkpoint_resuming_is_an_error(here):
    assert trained(*RUN, "~checkpoint")[0] == 0
    (here / "run" / "status.json").write_text("{}")  # as if it had been killed
    code, _, error = trained("resume=run")
    assert code == 1 and "there is no checkpoint of it in" in error and "Traceback" not in error
    assert status(here / "run") == {}  # as it was found


def test_a_damaged_newest_checkpoint_is_reported_and_the_previous_one_used(
    here, finished, three_epochs
):
    weights = here / "run" / "checkpoints" / "step-10" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 4
    weights.write_bytes(content)
    code, said, _ = trained("resume=run", "num_epochs=3")

    assert code == 0 and "model.safetensors" in said and "step-10" in said
    assert f"resuming from {here}/run/checkpoints/step-5" in said
    assert have_the_same_weights(here / "run", three_epochs)
    assert updates_in(here / "run") == updates_in(three_epochs)


def test_another_machine_or_version_is_reported_and_recorded(stopped):
    recorded = json.loads((stopped / "provenance.json").read_text())
    torch, threads = recorded["packages"]["torch"], recorded["hardware"]["threads"]

    def age(origin):
        origin["packages"]["torch"] = "1.0"
        origin["hardware"] |= {"threads": 96, "host": "elsewhere"}

    change(stopped, "provenance.json", age)
    code, said, _ = trained("resume=run")
    changes = f"torch 1.0 -> {torch}, threads 96 -> {threads}\n"
    assert code == 0 and f"bit-identical results are not guaranteed: {changes}" in said
    (entry,) = json.loads((stopped / "provenance.json").read_text())["resumes"]
    assert (entry["packages"]["torch"], entry["hardware"]["threads"]) == (torch, threads)


@pytest.mark.parametrize(("name", "changed", "words"), [
    ("provenance.json", lambda plain: plain["data"].update(sha256="0" * 64),
     ["was trained on 000", "it cannot be resumed with other data"]),
    ("config.json", lambda plain: plain["data"]["data"].update(valid=0.7),
     ["use the same split options"]),
])  # fmt: skip
def test_other_data_or_other_parts_of_them_are_refused(stopped, name, changed, words):
    change(stopped, name, changed)
    code, _, error = trained("resume=run")
    assert code == 1 and all(word in error for word in words)


def test_the_same_command_starts_and_resumes_a_run(here):
    command = (*RUN, "restart=requeued")
    with stopping(updates=3):
        assert trained(*command)[0] == 75
    assert status(here / "run")["status"] == "interrupted"
    for words in ("resuming from", "nothing is left to do"):
        code, said, _ = trained(*command)
        assert code == 0 and words in said


def test_the_same_command_starts_a_run_without_updates_and_no_other(here):
    (here / "run").mkdir()
    run_record.begin(RunFolder(here / "run"))  # killed then
    assert trained(*RUN, "restart=requeued")[0] == 0
    (here / "run" / "checkpoints").rename(here / "not mounted")
    run_status.write(RunFolder(here / "run"), {"status": "running"})
    before = content(here / "run")
    code, _, error = trained(*RUN, "restart=requeued")
    assert code == 1 and "holds a run that has trained, and there is no checkpoint of it" in error
    assert content(here / "run") == before


def test_a_command_that_trains_nothing_resumes_nothing(here):
    refused = called(plan.main, "resume=run")
    assert refused.code == 2
    assert "resume: this command trains nothing, so it has nothing to resume" in refused.errors


def test_facts_that_this_version_learns_otherwise_are_named(here, caplog):
    options = ("hydra.run.dir=run", "num_epochs=1", "experiment=diabetes", "render=plain")
    assert trained(*options)[0] == 0
    folder = RunFolder(Path("run"))
    facts = run_record.read_json(folder, folder.data)
    facts["target_mean"][0] *= 1 + 1e-9  # rounding
    run_record.write_json(folder, {folder.data: facts})
    assert trained("resume=run", "num_epochs=2")[0] == 0 and "differ" not in caplog.text
    facts["target_mean"][0] += 0.5
    run_record.write_json(folder, {folder.data: facts})
    assert trained("resume=run", "num_epochs=3")[0] == 0
    assert f"data diabetes: target_mean differ from {folder.path.absolute()}" in caplog.text

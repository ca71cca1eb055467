"""`fork_from=` on the command line: a new run with the whole state of another, which is only read.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from andiron.run_folder import RunFolder
from andiron.shell.run import log_file, run_record
from andiron.shell.training import train
from andiron.wings.runs import command as runs
from andiron.wings.trained import evaluate
from in_process import called, page_ran
from stops_at import stopping
from proofs.lab_parts import bit_comparison, rerun

ROOT = Path(__file__).resolve().parents[3]
RUN = (
    "hydra.run.dir=parent", "num_epochs=3", "checkpoint.last=30", "checkpoint.every=1",
    "render=plain", "model.hidden=[8]",
)  # fmt: skip
DIGITS = "data=partial", "data.fraction=0.2", "log_every=2"
CSV = "data=csv", "data.path=table.csv", "data.target=label", "data.valid=0.2", "data.test=0.2"
RICH = (
    "averages=ema", "scheduler=plateau", "scheduler.patience=0", "early_stopping=patience",
    "validate_every=2", "augmentation=shift", "model.dropout=0.2",
)  # fmt: skip


def trained(*arguments, cwd=None):
    return called(train.main, *arguments, cwd=cwd)


def forked(*arguments):
    ended = trained("render=plain", *arguments)
    assert ended.code == 0, ended.errors
    return ended.output


def refused(*arguments):
    """The error of a command that changes nothing."""
    before = files_of(".")
    ended = trained("hydra.run.dir=refused", *arguments)
    assert ended.code not in (0, 130) and files_of(".") == before
    return ended.errors


def files_of(folder):
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def differences(parent, fork, since):
    """The differences of two finished runs in what came after an update."""
    result = bit_comparison.compare(Path(parent), Path(fork))
    return [str(value) for value in result if value.updates is None or value.updates > since]


def origin(folder):
    return json.loads((Path(folder) / "provenance.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    assert trained(*RUN, *DIGITS, cwd=folder).code == 0
    return folder / "parent"


@pytest.fixture
def parent(here, made):
    """A finished run of 15 updates in 3 epochs, with a checkpoint after each update."""
    return shutil.copytree(made, Path("parent"))


@pytest.mark.parametrize(
    ("options", "at"),
    [([*DIGITS, *RICH], 7), ([*DIGITS, *RICH], 10), ([*CSV, "num_workers=1"], 6)],
)
def test_an_unchanged_fork_has_its_parents_bits(here, options, at):
    rows = ["a,b,label\n", *(f"{n % 7},{n % 5 / 3},{'xyz'[n % 3]}\n" for n in range(500))]
    Path("table.csv").write_text("".join(rows))
    assert trained(*RUN, *options).code == 0
    before = files_of("parent")
    forked(f"fork_from=parent@{at}", "hydra.run.dir=fork")
    assert files_of("parent") == before
    assert differences("parent", "fork", at) == []
    first = json.loads(Path("fork/metrics.jsonl").read_text().partition("\n")[0])
    assert at < first["updates"] <= at + 4


def test_a_fork_has_its_parents_options_and_its_changes(parent):
    said = forked("fork_from=parent@epoch:2", "hydra.run.dir=fork", "lr=0.1", "name=tail")
    assert "changed: lr: 0.001 -> 0.1" in said and "update 10, epoch 3" in said
    record, before = origin("fork")["fork_from"], origin("parent")
    assert record["changes"]["lr"] == ["0.001", "0.1"] and record["checkpoint"] == "step-10"
    assert record["data"] == before["data"] and record["git"] == before["git"]
    assert record["run"] == run_record.identity(RunFolder(parent))
    configs = [json.loads(Path(run, "config.json").read_text()) for run in ("parent", "fork")]
    differing = {name for name in configs[0] if configs[0][name] != configs[1][name]}
    assert differing == {"lr", "scheduler", "name", "fork_from"}
    assert configs[1]["fork_from"] == f"{parent.absolute()}@10"
    forked("fork_from=fork@12", "hydra.run.dir=second")  # a fork of a fork
    assert differences("fork", "second", 12) == []
    assert called(evaluate.main, "second").code == 0


@pytest.mark.parametrize(
    ("frozen", "recorded"),
    [("10", []), ("false", ["summary.json: param_groups.body.frozen is False, not 10"])],
)
def test_a_fork_thaws_a_group_that_never_trained(here, frozen, recorded):
    head, thawed = [*DIGITS, "param_groups=head_only"], "param_groups.body.frozen="
    assert trained(*RUN, *head).code == 0
    allowed = f"{thawed}{frozen}", "resume_allow=[param_groups]"
    forked("fork_from=parent@10", "hydra.run.dir=fork", *allowed)
    assert trained(*RUN, *head, f"{thawed}10", "hydra.run.dir=straight").code == 0
    assert differences("straight", "fork", 10) == recorded


def test_names_of_checkpoints(parent):
    forked("fork_from=parent@best", "hydra.run.dir=best", "num_epochs=4")
    forked("fork_from=parent", "hydra.run.dir=latest", "num_epochs=4")
    summary = json.loads(Path("parent/summary.json").read_text())["metrics"]
    best = next(row for row in summary if (row["split"], row["metric"]) == ("valid", "loss"))
    assert origin("best")["fork_from"]["checkpoint"] == f"step-{5 * best['epoch_of_best']}"
    assert origin("latest")["fork_from"]["checkpoint"] == "step-15"


def test_a_fork_is_resumed_and_rerun_as_a_run_is(parent):
    with stopping(updates=9):
        assert trained("fork_from=parent@7", "hydra.run.dir=fork", "lr=0.01").code == 130
    assert trained("resume=fork").code == 0
    forked("fork_from=parent@7", "hydra.run.dir=straight", "lr=0.01")
    assert differences("straight", "fork", 0) == []
    again = called(rerun.main, "straight", "--into", "again")
    assert again.code == 0 and "changed since: nothing" in again.output
    assert origin("again")["rerun"]["run"] == run_record.identity(RunFolder(Path("straight")))
    assert "fork what it repeats" in refused("fork_from=again@8")
    requeued = "fork_from=parent@7", "hydra.run.dir=requeued", "lr=0.01", "restart=requeued"
    with stopping(updates=9):
        assert trained(*requeued).code == 75
    assert trained(*requeued).code == 0
    assert differences("straight", "requeued", 0) == []


def test_eight_tails_cost_one_trunk_and_eight_tails(parent):
    sweep = (
        "-m", "fork_from=parent@10", "scheduler=cosine,linear", "lr=0.1,0.2,0.3,0.4",
        "hydra.sweep.dir=tails", "hydra/launcher=basic", "num_epochs=4",
    )  # fmt: skip
    forked(*sweep)
    for number in range(8):
        lines = Path(f"tails/{number}/metrics.jsonl").read_text().splitlines()
        assert {json.loads(line)["updates"] for line in lines} == {12, 14, 15, 16, 18, 20}
        assert json.loads(Path(f"tails/{number}/config.json").read_text())["model"]["hidden"] == [8]
    forked("fork_from=parent@10", "scheduler=linear", "lr=0.2", "num_epochs=4", "hydra.run.dir=one")
    assert differences("one", "tails/5", 0) == []
    own = [*sweep[:2], "lr=0.2", "scheduler=linear,cosine", "hydra.sweep.dir=own", "num_epochs=4"]
    assert "2 jobs" in forked(*own)  # with Andiron's launcher
    assert differences("one", "own/0", 0) == []
    assert "2 of 2 jobs are done already" in forked(*own)


REFUSED = {
    "fork_from=parent@77": r"no such checkpoint in .*there are: @0, @1, .*checkpoint.last=20",
    "fork_from=parent@epoch:9": "no such checkpoint",
    "fork_from=gone": "gone: holds no run: there is no such folder",
    "fork_from=.": "name one of its 1 runs",
    "fork_from=parent@bset": "latest, best or epoch:3; there are: @0",
    "fork_from=parent": "nothing is left to train",
    "fork_from=parent@5 num_epochs=0": "num_epochs",
    "fork_from=parent@7 num_epochs=1": "has completed 1 epochs and 2 batches",
    "fork_from=parent@5 optimizer=sgd": r"optimizer._target_=.*and a fork keeps it",
    "fork_from=parent@5 data.fraction=0.3": r"data.fraction=0.3: .*start_from=",
    "fork_from=parent@5 model.hidden=[9]": r"give resume_allow=\[model\] to fork",
    "fork_from=parent@5 model.hidden=[9] resume_allow=[model]": r"1.weight.*\n.*start_from=",
    "fork_from=parent@5 resume_allow=[lr]": "names no option that can be allowed; allowed: model",
    "fork_from=parent@5 resume=parent": "a resumed run stays in its folder",
    "fork_from=parent@5 debug=true": "and a fork keeps it",
    "-m fork_from=parent@5,parent@6": "is one value for all jobs",
}


def test_what_cannot_be_forked_is_named_before_anything_is_written(parent):
    missing = {}
    for arguments, said in REFUSED.items():
        if not re.search(said, result := refused(*arguments.split()), re.DOTALL):
            missing[arguments] = result
    assert missing == {}


@pytest.mark.usefixtures("preloaded_processes")
def test_damaged_old_and_running_parents_are_named(parent):
    with log_file.locked(parent / "experiment.log"):  # in this process, so another is asked
        command = [sys.executable, ROOT / "train.py", "fork_from=parent@5"]
        said = subprocess.run(command, capture_output=True, text=True).stderr
        assert "parent: a process still trains this run" in said
    state = parent / "checkpoints/step-5/state.json"
    whole = state.read_bytes()
    state.write_bytes(whole.replace(b'"updates"', b'"updatez"'))
    assert "step-5/state.json: SHA-256 is" in refused("fork_from=parent@5")
    state.unlink()
    assert "step-5/state.json: missing" in refused("fork_from=parent@5")
    config = (parent / "config.json").read_text()
    (parent / "config.json").write_text(config.replace('"num_epochs": 3', '"num_epochs": 4'))
    assert "was changed since the run wrote it" in refused("fork_from=parent@6")
    (parent / "config.json").write_text(config.replace('"lr"', '"rate"', 1))
    run_record.accept(RunFolder(parent))
    assert "rate: no such option" in refused("fork_from=parent@6")
    (parent / "config.json").write_text(config.replace("andiron.models.MLP", "evil.Model"))
    run_record.accept(RunFolder(parent))
    assert "trust=[evil]" in refused("fork_from=parent@6")


def test_the_page_of_forks(here):
    text = (ROOT / "docs/forking.md").read_text()
    said = dict(page_ran(text, ROOT, {}))
    assert len(said) == 5
    assert differences("runs/by_hand", "runs/forked", 21) == []


def test_the_tree_of_runs_names_changes_and_missing_parents(parent):
    forked("fork_from=parent@10", "hydra.run.dir=fork", "lr=0.1")
    assert trained("resume=fork", "num_epochs=4").code == 0
    forked("fork_from=fork@18", "hydra.run.dir=deep/second", "scheduler=cosine")
    forked("start_from=parent/model.safetensors", *RUN[1:], "hydra.run.dir=tuned", "data=partial")
    assert called(rerun.main, "parent", "--into", "again").code == 0
    said = called(runs.main, "tree", ".").output.replace(f"{Path.cwd()}/", "").splitlines()
    assert [line.partition("  data")[0] for line in said] == [
        "parent  done",
        "  again  done  repeats it",
        "  fork  done  resumed 1 times  num_epochs 3, from update 15 4  forked from  step-10  "
        "lr 0.001 -> 0.1  num_epochs 3 -> 4",
        "    deep/second  done  forked from  step-18  scheduler Constant -> Cosine  "
        "scheduler.min_lr null -> 0.0",
        "  tuned  done  starts from its weights",
    ]
    shutil.rmtree("parent")
    (alone,) = json.loads(called(runs.main, "tree", "fork", "--json").output)["tree"]
    assert alone["parent"]["changes"]["lr"] == ["0.001", "0.1"]
    assert not alone["parent"]["is_there"] and alone["parent"]["run"]
    said = called(runs.main, "tree", "deep").output
    assert "fork  not in these folders" in said
    assert "parent  missing" in called(runs.main, "tree", "fork").output

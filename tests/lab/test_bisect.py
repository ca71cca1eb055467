"""Twelve injected differences: `bisect` names the update and the first tensor, and the commit."""

import shutil
import sys
from pathlib import Path

import pytest
import torch

from andiron import errors
from andiron.shell.training import train
from andiron_lab.ask import bisect, conditions, engine
from andiron_lab.ask.conditions import Side
from in_process import called
from proofs import injected_differences
from proofs.injected_differences import INJECTED, begin, git, parting, run_of


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A user's repository with one commit."""
    folder = tmp_path_factory.mktemp("project")
    begin(folder)
    return folder


@pytest.fixture(autouse=True)
def here(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    threads = torch.get_num_threads()
    yield project
    torch.set_num_threads(threads)
    sys.modules.pop("parts", None)


@pytest.mark.parametrize("name", INJECTED)
def test_an_injected_difference_is_named_by_its_update_and_tensor(name):
    injected, actual = INJECTED[name], injected_differences.named_between_runs(name)
    update = injected.update or actual["agreed"] + 1
    assert actual["named"] == (update, injected.kind, injected.tensor)
    first = actual["first"]
    assert actual["agreed"] == update - 1 and first["expected"] != first["found"]
    option = injected.override[1:].partition("=")[0]
    assert any(note.startswith(f"{option}: ") for note in actual["notes"])


def test_a_run_under_other_conditions_parts_as_another_run_does():
    name = "a schedule off by one"
    result = injected_differences.named_between_runs(name)
    alone = parting(run_of("plain"), INJECTED[name].override)
    assert {**alone, "notes": []} == {**result, "notes": []}
    seeded = INJECTED["a seed"]
    named = parting(run_of("plain"), seeded.override, "--updates", "1", "1")["named"]
    assert named == (1, seeded.kind, seeded.tensor)  # not hidden by the checkpoint at 0
    same = parting(run_of("plain"), "log_every=1", "--updates", "9", "14")
    assert (same["equal"], same["agreed"]) == (True, 14)


def test_what_is_before_the_updates_is_not_said_to_agree():
    asked = run_of("plain"), INJECTED["a schedule off by one"].override, "--updates", "17", "18"
    said = "updates 16 to 18, made again from the run's checkpoint 15, do not differ\n"
    assert called(bisect.main, *asked).output == said
    assert parting(*asked)["start"] == 15
    assert parting(*asked, "--from-start")["named"][0] == 13


def test_a_question_sees_the_run_as_it_is_now(project):
    values = set()
    for name, *options in (("plain",), ("a seed", INJECTED["a seed"].override)):
        shutil.rmtree(project / "runs/now", ignore_errors=True)
        shutil.copytree(run_of(name, *options), project / "runs/now")
        result = parting("runs/now", INJECTED["eps"].override, "--updates", "1", "1")
        values.add(result["first"]["expected"])
    assert len(values) == 2


def test_forks_part_after_the_update_of_their_parent():
    options = f"fork_from={run_of('plain')}@10", "num_epochs=4", "checkpoint.last=9"
    name = "a schedule off by one"
    fork, other = run_of("fork", *options), run_of("forked", *options, INJECTED[name].override)
    result = parting(fork, other)
    assert result["named"] == (13, "learning rate of group", "base")
    assert parting(fork, other, "--from-start")["named"] == result["named"]
    assert parting(fork, INJECTED[name].override)["named"] == result["named"]
    notes = parting(run_of("plain"), other)["notes"]
    assert [note.partition(":")[0] for note in notes if "fork_from" in note] == ["fork_from"]
    assert parting(fork, "log_every=1", "--from-start")["equal"]
    with pytest.raises(errors.SelectionError, match="--updates 5 12: give two from 11 to 20"):
        bisect.parted(Side(str(fork)), Side(str(other)), updates=(5, 12))


def test_a_later_evaluation_is_named():
    result = parting(run_of("sharp", "sam=0.05"), "sam=0.06", "--updates", "1", "1")
    assert result["named"] == (1, "output of layer in evaluation 2", "network.first.1")


def test_options_beside_another_run_are_refused():
    one, two = Side("runs/one"), Side("runs/two", overrides=("num_epochs=1",))
    with pytest.raises(errors.SelectionError, match="runs/two: options, threads, code"):
        bisect.parted(one, two)


def test_state_that_no_checkpoint_has_is_found_from_the_starts(project):
    parts = project / "parts.py"
    text = parts.read_text()
    parts.write_text(text.replace("torch.zeros(()))", "torch.zeros(()), persistent=False)", 1))
    sys.modules.pop("parts", None)
    straight, resumed = run_of("straight"), run_of("resumed", "num_epochs=2")
    assert called(train.main, f"resume={resumed}", "num_epochs=4").code == 0
    unseen, actual = parting(straight, resumed), parting(straight, resumed, "--from-start")
    parts.write_text(text)
    assert unseen["first"] is None and not unseen["equal"]
    assert any("--from-start" in note for note in unseen["notes"])
    assert actual["named"] == (11, "before the update", "buffer: network.counted.seen")


def test_runs_that_differ_by_rounding_part_where_they_leave_the_tolerance():
    rounded = INJECTED["another order of summation"], INJECTED["a schedule off by one"]
    other = run_of("both", *(value.override for value in rounded))
    result = parting(run_of("plain"), other, "--tolerance", "1e-2")
    assert result["named"] == (13, "learning rate of group", "base")
    lost = run_of(injected_differences.RESUMED, INJECTED[injected_differences.RESUMED].override)
    near = parting(run_of("plain"), lost, "--tolerance", "0.9")  # of weights, not of buffers
    assert (near["equal"], near["notes"]) == (True, [])


def test_equal_runs_are_equal_and_others_need_a_checkpoint(monkeypatch):
    same = parting(run_of("plain"), run_of("same"))
    assert (same["equal"], same["agreed"], same["notes"]) == (True, 20, [])
    kept = "checkpoint=last", "checkpoint.last=1"
    few = run_of("few", *kept), run_of("fewer", *kept, "num_epochs=3")
    assert parting(*few)["agreed"] == 15  # a start that takes less than seconds needs no leave
    monkeypatch.setattr(engine, "SECONDS_UNASKED", 0.0)
    assert "--from-start" in parting(*few)["error"]["message"]
    assert called(bisect.main, *few, "--updates", "1", "2").code == 0


def test_a_run_and_a_fork_of_its_end_have_no_update_in_common():
    run = run_of("plain")
    fork = run_of("longer", f"fork_from={run}", "num_epochs=5")
    for sides in ((run, fork), (fork, run)):
        ended = called(bisect.main, *sides)
        assert ended.code == 2 and "no update in common; a fork begins with" in ended.errors
        assert f"{fork} begins after update 20, and" in ended.errors
        assert f"{run} ends after update 20" in ended.errors


@pytest.mark.parametrize("span", ["HEAD", "HEAD..", "HEAD...HEAD", "nowhere..HEAD"])
def test_what_is_no_span_of_commits_is_refused(span):
    ended = called(bisect.main, run_of("plain"), "--commits", span)
    assert ended.code == 2 and ("GOOD..BAD" in ended.errors or "rev-list" in ended.errors)


def test_a_checkout_starts_no_program_of_the_repository_and_leaves_it_alone(project):
    program, started = project.parent / "program.sh", project.parent / "started"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    shutil.copy(program, project / ".git/hooks/post-checkout")
    git("config", "core.fsmonitor", str(program))
    before = git("status", "--porcelain"), git("worktree", "list")
    started.unlink()  # by this test's own git
    first = conditions.git(project, "rev-list", "HEAD").split()[-1]
    with conditions.checked_out(project, first) as code:
        assert (Path(code) / "parts.py").is_file() and not (Path(code) / ".git").exists()
    assert not started.exists() and not Path(code).exists()
    assert (git("status", "--porcelain"), git("worktree", "list")) == before
    git("config", "--unset", "core.fsmonitor")


@pytest.mark.usefixtures("preloaded_processes")
def test_the_first_commit_with_other_bits_is_named_and_no_worktree_is_left():
    before = git("status", "--porcelain"), git("worktree", "list")
    commit, actual = injected_differences.named_in_history("a constant in one layer")
    assert actual["commit"] == commit
    assert actual["named"] == (1, "output of layer", "network.scaled")
    assert (git("status", "--porcelain"), git("worktree", "list")) == before

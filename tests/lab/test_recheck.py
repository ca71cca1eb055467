"""Rechecks of honest runs, and of runs that somebody changed, with every checksum renewed."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import andiron
from andiron.plain import readable
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record
from andiron_lab.ask import recheck, replay, samples
from andiron_lab.ask.following import Follows
from in_process import called
from proofs import recheck_proof


@pytest.mark.parametrize("kind", recheck_proof.OPTIONS)
def test_stretches_of_honest_runs_have_no_difference(tmp_path, kind):
    done = recheck_proof.honest(tmp_path, kind)
    assert done.differences == []
    assert len(done.segments) > 1
    assert all(segment.tensors and segment.values for segment in done.segments)


@pytest.mark.parametrize("number", range(len(recheck_proof.FORGERIES)))
def test_a_change_is_named_although_its_checksums_are_renewed(tmp_path, number):
    change, done = recheck_proof.forged(tmp_path, number)
    assert done.differences, change


def test_the_command_reports_what_it_covered_and_names_damage(finished_digits, tmp_path):
    run, report = shutil.copytree(finished_digits, tmp_path / "run"), tmp_path / "report.md"
    ended = called(recheck.main, run, "--from-start", "--markdown", report)
    assert (ended.code, ended.output) == (0, report.read_text())
    assert "42 of 42 updates were made again." in ended.output
    assert ended.output.endswith("\nEvery byte is the run's own.\n")

    alone = called(recheck.main, run, "--segments", "1", "--json")
    answer = json.loads(alone.output)
    assert (alone.code, answer["same_bits"], answer["record"]) == (0, True, [])
    assert [(value["first"], value["last"]) for value in answer["segments"]] == [(22, 42)]
    part = recheck.recheck(run, 1, 0).as_markdown
    assert part.endswith("\nEvery byte of what was made again is the run's own.\n")
    refused = called(recheck.main, run, "--markdown", run / "summary.json")
    assert refused.code == 2 and f"is inside the run folder {run}" in refused.errors

    damaged = run / "checkpoints" / "step-42" / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    ended = called(recheck.main, run)
    assert ended.code == 1 and f"\n{damaged}: " in ended.output
    RunFolder(run).summary.write_text("{}")
    ended = called(recheck.main, run)
    assert ended.code == 1
    assert f"\n{run / 'summary.json'}: is not as the run wrote it" in ended.output


def test_every_question_is_answered_with_as_many_threads_as_the_run_had(
    finished_digits, monkeypatch
):
    had, made, threads = torch.get_num_threads(), Follows.follow, []

    def follow(*given):
        threads.append(torch.get_num_threads())
        return made(*given)

    monkeypatch.setattr(Follows, "follow", follow)
    torch.set_num_threads(had + 1)
    try:
        for main, *words in (
            (recheck.main, "--segments", "1"), (replay.main, "--update", "30"),
            (samples.main, "--update", "30"),
        ):  # fmt: skip
            assert called(main, finished_digits, *words).code == 0
        andiron.load(finished_digits).ask.updates(30, 30)
        assert torch.get_num_threads() == had + 1
    finally:
        torch.set_num_threads(had)
    assert threads == 4 * [had]


def test_a_run_without_two_checkpoints_is_refused(finished_digits, tmp_path):
    run = shutil.copytree(finished_digits, tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / "step-21")
    ended = called(recheck.main, run)
    assert ended.code == 2 and f"error: {run}: has 1 checkpoint, and a stretch" in ended.errors


def test_a_value_of_tensorboard_or_of_the_summary_that_was_not_logged_is_named(
    finished_digits, tmp_path
):
    run = RunFolder(shutil.copytree(finished_digits, tmp_path / "run"))
    lines = run.metrics.read_text().splitlines()
    edited = [json.loads(line) for line in lines]
    for line in edited:
        if (line["split"], line["over"], line["epoch"]) == ("valid", "epoch", 2):
            line["accuracy"] += 0.01
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in edited))
    done = recheck.recheck(run.path, 1, 0)
    assert len(done.record) == 3  # best and last of the summary, a scalar
    assert all("accuracy" in line for line in done.differences)


@pytest.mark.parametrize("name", [
    "\x1b[31mred", "<img src=x onerror=alert(1)>", "**bold** [a](http://b)", "a|b", "\u202eabc",
    "``````", "line\nbreak",
])  # fmt: skip
def test_a_strangers_text_is_literal_in_the_report(name):
    made = [recheck.Segment(1, 4, 2, 3)]
    text = recheck.Recheck(Path(f"runs/{name}"), 4, made, [f"{name}: is 1"]).as_markdown
    assert readable.printable(text) == text
    fence, outside = "", []
    for line in text.splitlines():
        if line.startswith(fence or "```"):
            fence = "" if fence else re.match("`+", line)[0]
        elif not fence:
            outside.append(line)
    assert all(sign not in "\n".join(outside) for sign in ("red", "img", "bold", "abc", "break"))


def test_a_run_that_ends_earlier_when_it_is_made_again_is_named(finished_digits, tmp_path):
    run = RunFolder(shutil.copytree(finished_digits, tmp_path / "run"))
    plain = json.loads(run.config.read_text())
    run.config.write_text(json.dumps({**plain, "batch_size": 400}))
    origin = json.loads(run.provenance.read_text())
    origin["hardware"]["threads"] = True
    run.provenance.write_text(json.dumps(origin))
    run_record.accept(run)
    ended = called(replay.main, run.path, "--update", "9", "--from-start")
    assert ended.code == 2 and "made again, it ends after update " in ended.errors

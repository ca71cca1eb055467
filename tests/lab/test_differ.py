"""Differences between runs over seeds and samples, and the seeds that are missing."""

import json

import pytest
from in_process import called

from andiron.shell.training import train
from andiron_lab.ask import bit_comparison
from andiron.wings.runs import command
from andiron_lab.seeds import differ, seeds

SMALL = ("data=partial", "num_epochs=1", "model.hidden=[8]", "batch_size=7", "render=plain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two configurations, each a folder of two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    for name, lr in (("a", 0.01), ("b", 1e-5)):
        for seed in (0, 2):
            options = f"lr={lr}", f"seed={seed}", f"hydra.run.dir={name}/{seed}"
            assert called(train.main, *SMALL, *options, cwd=folder).code == 0
    return folder


def test_missing_seeds_have_the_bits_of_runs_that_were_started_alone(folder):
    alone = called(train.main, *SMALL, "lr=0.01", "seed=3", "hydra.run.dir=alone/3", cwd=folder)
    ended = called(seeds.main, "a/0", "--add", "2", "--json", cwd=folder)
    again = called(seeds.main, "a/0", "--add", "1", cwd=folder)

    assert (alone.code, ended.code, ended.errors.count("error")) == (0, 0, 0)
    added = [folder / "a" / f"0-seed{seed}" for seed in (1, 3, 4)]
    answer = {"runs": [{"seed": seed, "run": str(added[seed // 2])} for seed in (1, 3)]}
    assert json.loads(ended.output) == answer
    assert again.output.splitlines()[-1] == f"seed 4: {added[2]}"
    assert bit_comparison.compare(folder / "alone" / "3", added[1]) == []


def test_an_unfinished_seed_is_resumed_and_another_run_is_not_replaced(folder):
    run = *SMALL, "lr=1e-5", "seed=1"
    for place in ("b/0-seed1", "whole/1"):
        assert called(train.main, *run, f"hydra.run.dir={place}", cwd=folder).code == 0
    stopped = folder / "b" / "0-seed1"
    identity = json.loads((stopped / "manifest.json").read_text())["run"]
    status = stopped / "status.json"
    status.write_text(status.read_text().replace('"done"', '"interrupted"'))
    for name in ("model.safetensors", "summary.json"):  # written at the end
        (stopped / name).unlink()
    other = called(train.main, *SMALL, "lr=0.1", "hydra.run.dir=b/0-seed3", cwd=folder)

    saved = stopped / "checkpoints"
    saved.rename(stopped.with_name("moved"))
    lost = called(seeds.main, "b/0", "--add", "1", cwd=folder)
    assert lost.code == 1 and f"runs rm {stopped}` removes it" in lost.errors
    stopped.with_name("moved").rename(saved)
    assert other.code == called(seeds.main, "b/0", "--add", "1", cwd=folder).code == 0
    assert '"done"' in status.read_text()
    assert json.loads((stopped / "manifest.json").read_text())["run"] == identity
    assert bit_comparison.compare(folder / "whole" / "1", stopped) == []
    refused = called(seeds.main, "b/0", "--add", "1", cwd=folder)
    assert refused.code == 1 and "0-seed3" in refused.errors
    called(command.main, "rm", "b/0-seed3", "--yes", cwd=folder)


@pytest.mark.parametrize("start", ["fork_from=a/0", "start_from=a/0"])
def test_a_seed_of_a_run_that_continues_another_continues_it_too(folder, start):
    run = *SMALL, start, "num_epochs=2", "lr=1e-4"
    name = start.partition("=")[0]
    for seed, place in ((0, f"{name}/0"), (1, f"{name}-alone/1")):
        options = f"seed={seed}", f"hydra.run.dir={place}"
        assert called(train.main, *run, *options, cwd=folder).code == 0

    ended = called(seeds.main, f"{name}/0", "--add", "1", "--trust", "andiron", cwd=folder)
    again = called(seeds.main, f"{name}/0", "--add", "1", cwd=folder)

    added = folder / name / "0-seed1"
    assert ended.code == 0 and ended.output.splitlines()[-1] == f"seed 1: {added}", ended.errors
    assert again.output.splitlines()[-1] == f"seed 2: {folder / name / '0-seed2'}"
    assert bit_comparison.compare(folder / f"{name}-alone" / "1", added) == []
    assert json.loads((added / "provenance.json").read_text())[name]


def test_folders_of_seeds_are_compared_over_seeds_and_samples(folder):
    ended = called(differ.main, "a", "b", "--samples", "--json", cwd=folder)
    text = called(differ.main, "a/0", "b/0", "--metric", "valid/accuracy", cwd=folder)
    one = called(differ.main, "a", cwd=folder)
    by_run = called(differ.main, "a/0", "b/0", "a/2", "b/2", "--json", cwd=folder)

    answer = json.loads(ended.output)
    (difference,), (samples,) = answer["differences"], answer["samples"]
    ours, theirs = (group["metrics"]["valid/loss"]["mean"] for group in answer["groups"])
    assert answer["metric"] == "valid/loss" and difference["value"] == pytest.approx(theirs - ours)
    assert difference["result"] == samples["result"] == "worse"
    right = [group["metrics"]["test/accuracy"]["mean"] for group in answer["groups"]]
    assert samples["value"] == pytest.approx(right[1] - right[0])
    assert "not tested" in text.output and text.code == 0
    assert one.code == 2 and "give two configurations" in one.errors
    assert [len(group["runs"]) for group in json.loads(by_run.output)["groups"]] == [2, 2]


def test_what_a_difference_may_come_from_beside_the_options_is_said(folder):
    longer = *SMALL, "num_epochs=2", "data.fraction=0.5"
    for seed in (0, 1):
        options = f"seed={seed}", f"hydra.run.dir=longer/{seed}"
        assert called(train.main, *longer, *options, cwd=folder).code == 0
    ended = called(differ.main, "a", "longer", cwd=folder)
    refused = called(differ.main, "a/0", "longer/0", "--samples", cwd=folder)

    assert "different numbers of updates" in ended.output
    assert refused.code == 2 and "no sample in common" in refused.errors

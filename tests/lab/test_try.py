"""`andiron try`: an idea is trained, decided, and written down with its patch."""

import json
import math
import subprocess
from pathlib import Path

import pytest

from andiron import errors
from andiron_lab.seeds import ideas
from in_process import called

SMALL = ("num_epochs=1", "model.hidden=[16]", "optimizer=sgd", "render=plain", "device=cpu")
PARENT = {"idea": 1, "values": {"seed=0": 0.90, "seed=1": 0.91, "seed=2": 0.92}}


@pytest.mark.parametrize(("values", "sign", "kept"), [
    ((0.94, 0.95, 0.961), 1, True),
    ((0.94, 0.95, 0.961), -1, False),
    ((0.86, 0.87, 0.879), -1, True),
    ((0.90, 0.92, 0.93), 1, False),  # within the noise
    ((0.94, 0.95, math.nan), 1, False),  # a seed failed
])  # fmt: skip
def test_an_idea_is_kept_only_if_the_improvement_is_shown(values, sign, kept):
    by_seed = dict(zip(PARENT["values"], values, strict=True))

    decision = ideas.decided(by_seed, PARENT, sign)

    assert decision["kept"] is kept and decision["parent"] == 1
    assert ideas.decided(by_seed, None, sign)["kept"] is not math.isnan(sum(values))


def test_the_parent_is_the_best_that_was_kept_by_the_metric_or_the_one_named():
    rows = [("valid/accuracy", 0.9, True), ("valid/accuracy", 0.95, True),
            ("valid/accuracy", 0.99, False), ("valid/loss", 0.1, True)]  # fmt: skip
    known = {
        number: {"idea": number, "metric": metric, "mean": mean, "kept": kept}
        for number, (metric, mean, kept) in enumerate(rows, 1)
    }

    assert ideas.parent_of(known, "valid/accuracy", 1, None)["idea"] == 2
    assert ideas.parent_of(known, "valid/accuracy", -1, None)["idea"] == 1
    assert ideas.parent_of(known, "valid/accuracy", 1, 3)["idea"] == 3
    with pytest.raises(errors.SelectionError, match="--against 4: no idea with valid/acc"):
        ideas.parent_of(known, "valid/accuracy", 1, 4)


def test_ideas_are_written_down_with_the_patch_of_the_working_tree(here):
    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    (here / "own.txt").write_text("before\n")
    git("add", "own.txt")
    git("commit", "-qm", "own")
    (here / "own.txt").write_text("after\n")
    rule = ("--keep-if", "valid/accuracy rises")

    first = called(ideas.main, "it is slow", "lr=1e-3", *SMALL, *rule)
    second = called(ideas.main, "a higher rate", "lr=1e-1", *SMALL, *rule, "--json")
    lost = called(ideas.main, "a huge rate", "lr=1e30", *SMALL, *rule, "--seeds", "2")

    assert (first.code, second.code, lost.code) == (0, 0, 1), first.errors
    assert "idea 1 is kept: valid/accuracy 0." in first.output
    assert "idea 3 is discarded: valid/accuracy nan" in lost.output
    lines = (here / "outputs" / "ideas" / "ideas.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    assert json.loads(second.output) == {"idea": written[1]}
    assert [(idea["idea"], idea["kept"], idea["mean"] is None) for idea in written] == [
        (1, True, False), (2, True, False), (3, False, True)
    ]  # fmt: skip
    assert written[1]["parent"] == 1 and written[1]["interval"][0] > 0
    (patch,) = [path for path in written[1]["patches"] if "+after\n" in Path(path).read_text()]
    git("stash")
    git("apply", patch)
    assert (here / "own.txt").read_text() == "after\n"
    listed = called(ideas.main, "--list", "--json")
    assert json.loads(listed.output) == {"ideas": written}

    def applied(idea, *more, cwd=here):
        given = "--apply", idea, "--ideas", here / "outputs/ideas", *more
        return called(ideas.main, *given, cwd=cwd)

    for idea in written:  # without the uncommitted changes of Andiron itself
        idea["patches"] = [patch] if idea["idea"] == 2 else []
        idea["code"] = [code for code in idea["code"] if code["root"] == str(here)]
        idea["code"] *= len(idea["patches"])
    path = here / "outputs" / "ideas" / "ideas.jsonl"
    path.write_text("".join(f"{json.dumps(idea)}\n" for idea in written))
    (here / "own.txt").write_text("mine\n")
    refused = applied("2")
    assert refused.code == 1 and "own.txt: patch does not apply" in refused.errors
    assert "stash your changes of these files, or check out" in refused.errors
    assert (here / "own.txt").read_text() == "mine\n"
    git("checkout", "own.txt")
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / ".git").mkdir()
    away = applied("2", cwd=here / "elsewhere")
    assert away.code == 2 and f"is in ['{here}']; start the command there" in away.errors
    assert "the code of this idea has no changes" in applied("1").errors
    assert "no such idea" in applied("9").errors

    answer = applied("2", "--json")

    (actual,) = json.loads(answer.output)["applied"]
    assert (actual["patch"], actual["root"], (here / "own.txt").read_text()) == (
        patch, str(here), "after\n"
    )  # fmt: skip
    Path(patch).write_text("other")
    assert "was changed since the run wrote it" in applied("2").errors


@pytest.mark.parametrize(("arguments", "problem"), [
    (["lr=1e-3"], "an idea needs a reason, before its overrides: what is tried"),
    (["two", "lr=1,2"], "lr=1,2: an idea has one configuration; --seeds gives its seeds"),
    (["one", "seed=3"], "seed=3: an idea has one configuration; --seeds gives its seeds"),
    (["one", "--keep-if", "loss"], "--keep-if=loss: no rule; give one as 'valid/loss falls'"),
])  # fmt: skip
def test_what_is_not_one_idea_is_refused_before_training(here, arguments, problem):
    ended = called(ideas.main, *arguments)

    assert ended.code == 2 and ended.problems[0].startswith(problem)
    assert not (here / "outputs").exists()

"""`start_from=<run>` compares the names of inputs and outputs of the run and of the data."""

import json
import shlex
from pathlib import Path

import pytest
from in_process import called

from andiron.shell.training import train

ALWAYS = ("num_epochs=1", "render=plain")
CSV = ("data=csv", "model.hidden=[4]")


def table(name, header, row):
    lines = [",".join(header), *(",".join(map(str, row(number))) for number in range(60))]
    Path(name).write_text("\n".join(lines) + "\n")
    return (*CSV, f"data.path={name}", "data.target=y")


def animals(*names):
    return table("-".join(names), ["a", "b", "y"], lambda n: [n, n % 7, names[n % 2]])


def towns(*names, options=()):
    return (*table("-".join(names), ["a", "t", "y"], lambda n: [n, names[n % 2], "no" if n % 3
                                                                else "yes"]), *options)  # fmt: skip


def two_targets(*names):
    rows = table("".join(names), ["a", *names], lambda n: [n, n % 7, n % 5])[:-1]
    return (*rows, f"data.target=[{','.join(names)}]", "task=regression", "metrics=regression")


def text(name, letters):
    Path(name).write_text(f"{letters}\n" * 60)
    return ("data=text", f"data.path={name}", "data.level=characters", "data.context_length=8",
            "task=language_model", "model=gpt", "model.dim=8", "model.layers=1",
            "metrics=language")  # fmt: skip


CASES = {
    "classes": (lambda: animals("cat", "dog"), lambda: animals("bird", "cat"), "cat, dog"),
    "a binary answer": (
        lambda: (*animals("cat", "dog"), "task=binary", "metrics=binary"),
        lambda: (*animals("bird", "cat"), "task=binary", "metrics=binary"), "cat, dog",
    ),
    "columns": (
        lambda: animals("cat", "dog"),
        lambda: table("c.csv", ["b", "c", "y"], lambda n: [n % 7, n, ["cat", "dog"][n % 2]]),
        "a, b",
    ),
    "categories": (lambda: towns("Bonn", "Rome"), lambda: towns("Rome", "Oslo"), "a, t=Bonn=Rome"),
    "codes": (
        lambda: towns("Bonn", "Rome", options=["data.categories=codes"]),
        lambda: towns("Rome", "Oslo", options=["data.categories=codes"]), "a, t=Bonn=Rome",
    ),
    "targets": (lambda: two_targets("u", "v"), lambda: two_targets("v", "u"), "u, v"),
    "characters": (lambda: text("one.txt", "abc"), lambda: text("two.txt", "abd"), "a, b, c"),
}  # fmt: skip


def ended(*options, folder):
    return called(train.main, *options, *ALWAYS, f"hydra.run.dir={folder}", "overwrite=true")


@pytest.mark.parametrize(("one", "two", "names"), CASES.values(), ids=CASES)
def test_a_layer_for_other_names_is_refused_taken_or_started_new(one, two, names, here):
    assert ended(*one(), folder="run").code == 0
    assert ended(*one(), "start_from=run", folder="same").code == 0
    newest = max(Path("run/checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    paths = "run", "run/model.safetensors", newest / "model.safetensors"
    for path in paths if names == "cat, dog" else paths[:1]:
        refused = ended(*two(), f"start_from={path}", folder="other")
        said = refused.errors.replace(r"'\n, ", "'")
        assert refused.code == 2 and f" was trained for '{names}" in said

    words = [word for word in shlex.split(refused.errors) if word.startswith("start_from={")]
    new, taken = (word.rstrip(";") for word in words)
    for line, is_new in (new, True), (taken, False):
        again = ended(*two(), line, folder="other")
        assert again.code == 0, again.errors
        record = json.loads(Path("other/provenance.json").read_text())["start_from"]
        assert bool(record["except"]) == bool(record["new"]) == is_new

"""The components of docs/extending.md, unchanged, in a run of several processes."""

import re

import pytest

from andiron_lab.ask import bit_comparison
from extending_page import SECOND, said, written_in
from train_processes import lines

pytestmark = pytest.mark.usefixtures("preloaded_processes")

TRAIN = 'python "$ANDIRON/train.py"'
PICTURE = "metrics=[mae,scatter]"  # a metric that gathers, beside those of the page's second run


def trained(project, processes, *options):
    """The folder of the page's second run, which this number of processes trained."""
    commands, _, resume = SECOND.partition(f"\n{TRAIN} --config-dir conf resume")
    assert resume
    if processes > 1:
        torchrun = f"python -m torch.distributed.run --standalone --nproc-per-node={processes}"
        commands = commands.replace(TRAIN, f'{torchrun} "$ANDIRON/train.py"')
    said(project, commands.replace("num_epochs=3", " ".join(["num_epochs=3", *options])))
    return project / "smooth"


def logged(run):
    """By split, update and kind of mean, every logged value except times."""
    return {
        (line["split"], line["updates"], line["over"], name): value
        for line in lines(run)
        for name, value in line.items()
        if not name.startswith(("time/", "system/")) and isinstance(value, float)
    }


def test_own_parts_give_the_numbers_of_one_process_in_three(tmp_path):
    # without the penalty for its change under noise, which is other noise in other processes
    options = (PICTURE, "task.penalty=0", "log_every=1")
    alone = trained(written_in(tmp_path / "one"), 1, *options)
    several = trained(written_in(tmp_path / "three"), 3, *options)
    expected, values = logged(alone), logged(several)
    assert values.keys() == expected.keys()
    assert {name for *_, name in expected} >= {"loss", "mae", "change"}
    for place, value in expected.items():
        if place[3] in ("loss", "mae"):  # float32 sums in another order
            assert values[place] == pytest.approx(value, rel=2e-6), place
        elif place[:1] + place[3:] == ("valid", "change"):  # the mean over 400 draws of noise
            assert values[place] == pytest.approx(value, rel=0.5), place
    table, other = (rows(run) for run in (alone, several))
    assert [row[0] for row in table] == [row[0] for row in other] == [19, 38, 57]
    for row, same in zip(table, other, strict=True):  # updates, loss, mae, change
        assert same[1:3] == pytest.approx(row[1:3], abs=1.01e-4)  # the table has four digits
    assert b"scatter" in b"".join(p.read_bytes() for p in several.glob("tensorboard/valid/*"))
    mirrored = several.parent / "backup" / "smooth"
    kept = {path.name for path in (several / "checkpoints").glob("step-*")}
    assert kept and {path.name for path in mirrored.iterdir()} == kept


def rows(run):
    """The numbers in the table that the page's writer keeps."""
    below = (run / "validations.md").read_text().splitlines()[2:]
    return [[float(number) for number in re.findall(r"\b[\d.]+\b", line)] for line in below]


def test_own_parts_give_the_same_bits_in_slices(tmp_path):
    options = (PICTURE, "optimizer=sign_sgd", "slices=4", "log_every=1")
    alone = trained(written_in(tmp_path / "one"), 1, *options)
    several = trained(written_in(tmp_path / "two"), 2, *options)
    assert bit_comparison.compare(alone, several) == []
    table, other = ((run / "validations.md").read_text() for run in (alone, several))
    assert table == other and table.count("\n") == 5

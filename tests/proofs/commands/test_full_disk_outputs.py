"""Outputs that a user names, on a disk that is really full: all of one, or the old one."""

import contextlib
import os

import pytest
import torch
from PIL import Image

from andiron.wings.runs import command as runs
from andiron.wings.trained import evaluate, predict
from in_process import called
from proofs.lab_parts import import_state_dict
from small_disks import fill, mounted

COMMANDS = {
    "predict": (predict.main, "RUN", "picture.png", "--output", "DISK/out.safetensors"),
    "runs compare": (runs.main, "compare", "RUN", "--png", "DISK/out.safetensors"),
    "import_state_dict": (import_state_dict.main, "weights.pt", "DISK/out.safetensors"),
    "evaluate": (evaluate.main, "RUN", "--pictures", "DISK"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_the_old_output_and_no_part_of_the_new(name, finished_digits, here):
    Image.new("L", (8, 8)).save("picture.png")
    torch.save({"w": torch.ones(2)}, "weights.pt")
    with mounted(here / "disk", mebibytes=1) as disk:
        (disk / "out.safetensors").write_bytes(b"old")
        fill(disk)
        places = {"RUN": str(finished_digits), "DISK": str(disk)}
        main, *arguments = COMMANDS[name]
        for word, path in places.items():
            arguments = [argument.replace(word, path) for argument in arguments]
        ended = called(main, *arguments)
        assert sorted(os.listdir(disk)) == ["filler", "out.safetensors"]
        assert (disk / "out.safetensors").read_bytes() == b"old"
    why = "cannot be written (No space left on device); name another file\n"
    assert ended.code == 1 and ended.errors.endswith(why)
    assert ("accuracy" in ended.output) == (name == "evaluate")  # measured before pictures fail


def test_rows_that_a_full_disk_cuts_off_are_an_error(finished_digits, here):
    Image.new("L", (8, 8)).save("picture.png")
    with mounted(here / "disk", mebibytes=1) as disk:
        filler = fill(disk, leave=2**14)
        with (disk / "out.csv").open("w", encoding="utf-8") as output:

            def main():
                with contextlib.redirect_stdout(output):
                    return predict.main()

            ended = called(main, finished_digits, *["picture.png"] * 2000)
        assert 0 < (disk / "out.csv").stat().st_size < 2**15 and filler.exists()
    lost = "error: standard output cannot be written (No space left on device); it is incomplete\n"
    assert (ended.code, ended.errors) == (1, lost)

"""Bad data: the error names file, row or index, before or at the batch concerned, and no run
folder is left.
"""

import io

import pytest
import safetensors.torch
import torch
from PIL import Image

COLUMNS = "height,weight,answer\n"
ROWS = [f"{number},{number * 7 % 13},{'yes' if number % 2 else 'no'}\n" for number in range(40)]
TABLE = ["data=csv", "data.path=table.csv", "data.target=answer"]
ARRAYS = ["data=safetensors", "data.path=arrays.safetensors"]
IMAGES = [
    "data=image_folder", "data.path=images", "data.size=8", "data.channels=1", "model=mlp",
    "num_workers=0",
]  # fmt: skip


def table(columns=COLUMNS, rows=ROWS, **changed):
    """A table of 40 rows in the current directory; `line_7="..."` stands in for that line of the
    file.
    """
    lines = [columns, *rows]
    for name, text in changed.items():
        lines[int(name.removeprefix("line_")) - 1] = text + "\n"
    return {"table.csv": "".join(lines).encode()}


def arrays(inputs=None, targets=None):
    inputs = torch.zeros(60, 4) if inputs is None else inputs
    targets = torch.arange(60) % 3 if targets is None else targets
    return {"arrays.safetensors": safetensors.torch.save({"inputs": inputs, "targets": targets})}


def nan_at(row):
    inputs = torch.zeros(60, 4)
    inputs[row, 2] = torch.nan
    return inputs


def images(**changed):
    """A folder of two classes with 20 pictures each; what is changed by its path."""
    buffer = io.BytesIO()
    Image.frombytes("L", (8, 8), bytes(range(64))).save(buffer, format="PNG")
    png = buffer.getvalue()
    files = {
        f"images/{name}/{number:02}.png": png for name in ("cat", "dog") for number in range(20)
    }
    return {
        path: content
        for path, content in (files | {key: value(png) for key, value in changed.items()}).items()
        if content
    }


def idx(*, missing=0):
    """MNIST in its four files, the training images cut short by some bytes."""
    files = {}
    for part, number in (("train", 60_000), ("t10k", 10_000)):
        header = b"\x00\x00\x08\x03" + b"".join(
            size.to_bytes(4, "big") for size in (number, 28, 28)
        )
        files[f"data/MNIST/raw/{part}-images-idx3-ubyte"] = header + bytes(
            number * 784 - (missing if part == "train" else 0)
        )
        files[f"data/MNIST/raw/{part}-labels-idx1-ubyte"] = (
            b"\x00\x00\x08\x01" + number.to_bytes(4, "big") + bytes(number)
        )
    return files


CASES = {
    "truncated IDX": (idx(missing=5), ["data=mnist", "data.root=data"],
                      "/data/MNIST/raw: a file there is damaged ("),
    "truncated image, decoded at every batch": (
        images(**{"images/dog/07.png": lambda png: png[:40]}), IMAGES, "/images/dog/07.png",
    ),
    "truncated image, decoded once": (images(**{"images/dog/07.png": lambda png: png[:40]}),
                                      [*IMAGES, "data.decoded=once"], "dog/07.png"),
    "class folder without images": (images(**{"images/cow/notes.txt": lambda png: b"none yet"}),
                                    IMAGES, "/images/cow: "),
    "missing column": (table(), [*TABLE[:2], "data.target=anwser"], "did you mean 'answer'?"),
    "text where a number should be": (table(line_7="six,1,no"), TABLE,
                                      "table.csv, line 7, column 'height': "),
    "not a number in a table": (table(line_9="nan,1,no"), TABLE,
                                "table.csv, line 9, column 'height': "),
    "a row that is too short": (table(line_5="1,2"), TABLE, "line 5: "),
    "negative label": (arrays(targets=torch.arange(60) - 1), ARRAYS, "-1"),
    "label out of range": (arrays(), [*ARRAYS, "task=binary", "loss.ignored_index=9"],
                           "epoch 1, batch 1: sample 47, 3, 8, 5, 35, 21, 16, 43, and 8 more of "
                           "the data: sample 0 of the batch has target 2, "),
    "not a number in memory": (arrays(nan_at(17)), ARRAYS, "row 17"),
    "not a number in a file": (arrays(nan_at(17)), [*ARRAYS, "data.in_memory=false"], "17"),
    "empty split": (table(rows=ROWS[:4]), TABLE, "divides 4 samples into 4 and 0"),
    "truncated arrays": ({"arrays.safetensors": arrays()["arrays.safetensors"][:-9]}, ARRAYS,
                         "arrays.safetensors: "),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_data_is_named_and_no_folder_is_left(name, command, here):
    files, arguments, words = CASES[name]
    for path, content in files.items():
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_bytes(content)

    said = command("hydra.run.dir=run", *arguments)

    lines = said.errors.splitlines()  # one, or a list of one with its headline and remedy
    assert words in said.errors and len(lines) == 1 + 2 * lines[0].endswith(":"), said.errors
    assert said.code == 1 and not (here / "run").exists()

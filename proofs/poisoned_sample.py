"""Counts how often one poisoned sample of MNIST's is found by name, from the spike, in one command.

    ANDIRON_DATA_DIR=... PYTHONPATH=src python -m proofs.poisoned_sample --seeds 30

For each seed and kind, a network is trained on other 512 images, of which one has a wrong label, a
pixel of NaN, or a pixel times 1,000, and every update is logged; then `andiron samples RUN --spikes
5` is called. The sample is found if it is the first that is listed for one of the five spikes.
Also counted: whether it is the first that `--update` lists for the spike of its own, which is the
update whose loss rose most among those that saw it.
"""

import argparse
import contextlib
import functools
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from andiron.data import ArrayDataset, ImageBatcher, RawBatch, mnist
from andiron.data.dataset import Indices
from andiron.data.splitting import fingerprint, splits
from andiron.run_folder import RunFolder
from andiron.shell.training import train
from andiron_lab.ask import samples
from andiron.wings.runs import logged_lines

SIZE, ALL, SPIKES = 512, 1024, 5  # images to train on, with those that validate and test
KINDS = "label", "pixel_nan", "pixel_x1000"
OPTIONS = (
    "~data", "+data._target_=proofs.poisoned_sample.poisoned", "trust=[proofs]", "batch_size=8",
    "model.hidden=[64]", "num_epochs=8", "lr=5e-4", "log_every=1", "checkpoint.last=20",
    "render=plain", "writers=json_lines", "device=cpu",
)  # fmt: skip


class Named:
    """Images with the names of their rows in MNIST's file."""

    def __init__(self, images: Tensor, targets: Tensor, rows: Tensor):
        self._arrays, self._rows = ArrayDataset(images, targets), rows.tolist()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitems__(self, indices: Indices) -> RawBatch:
        """The samples at `indices`."""
        return self._arrays.__getitems__(indices)  # type: ignore[return-value]

    def sample_name(self, index: int) -> str:
        """The name of a sample."""
        return f"mnist/{self._rows[index]:05}"


def poisoned(*, kind: str, seed: int) -> splits.Splits:
    """A part of MNIST that depends on `seed`; its first image, which trains, is poisoned."""
    whole, stream = _mnist(), torch.Generator().manual_seed(seed)
    rows = _rows(seed)
    images, targets = whole.inputs[rows].float(), whole.targets[rows]
    if kind == "label":
        targets[0] = (targets[0] + 1 + torch.randint(9, (), generator=stream)) % 10
    else:
        inked = images[0].flatten().nonzero().flatten()
        pixel = inked[torch.randint(len(inked), (), generator=stream)]
        images[0].view(-1)[pixel] *= float("nan") if kind == "pixel_nan" else 1000
    bounds = slice(SIZE), slice(SIZE, SIZE + 256), slice(SIZE + 256, None)
    parts = [Named(images[part], targets[part], rows[part]) for part in bounds]
    return splits.of_parts(
        lambda part: part, parts, name="poisoned MNIST", evaluation_batch_size=256,
        batcher=ImageBatcher(mean=0.1307, std=0.3081),
        facts={"input_shape": (1, 28, 28), "num_classes": 10},
        fingerprint=fingerprint.of_texts([kind, str(seed)]),
    )  # fmt: skip


def poisoned_name(seed: int) -> str:
    """The name of the poisoned sample."""
    return f"mnist/{int(_rows(seed)[0]):05}"


def first_samples(kind: str, seed: int) -> tuple[list[str], str]:
    """The first samples after a training with one poisoned sample, by name.

    That of each spike, and that of the update at which the poisoned one raised the loss most.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        poison = f"+data.kind={kind}", f"+data.seed={seed}", f"seed={seed}"
        _printed(train.main, *OPTIONS, *poison, f"hydra.run.dir={run}")
        spikes = _asked(run, "--spikes", str(SPIKES))["spikes"]
        saw = [value["update"] for value in _asked(run, "--name", poisoned_name(seed))["updates"]]
        losses = {
            line.updates: line.values["loss"] for line in logged_lines.read(RunFolder(run).metrics)
            if (line.split, line.over) == ("train", "window")
        }  # fmt: skip
        rises = {update: losses.get(update, inf) - losses.get(update - 1, 0) for update in saw}
        (own,) = _asked(run, "--update", str(max(saw, key=rises.__getitem__)))["updates"]
    firsts = [spike["updates"][0]["samples"][0]["name"] for spike in spikes]
    return firsts, own["samples"][0]["name"]


def _asked(run: Path, *question: str) -> dict[str, Any]:
    """The answer of `andiron samples`, if it has the bits of the run."""
    options = "--from-start", "--trust", "proofs", "--json"
    answer: dict[str, Any] = json.loads(_printed(samples.main, str(run), *question, *options))
    if answer.get("differences") != []:
        raise ValueError(f"not the updates of the run: {answer}")
    return answer


@functools.cache
def _mnist() -> ArrayDataset:
    whole = mnist(root=os.environ["ANDIRON_DATA_DIR"], valid="test", split_seed=0).train
    return whole  # type: ignore[return-value]


def _rows(seed: int) -> Tensor:
    stream = torch.Generator().manual_seed(seed + 10**6)
    return torch.randperm(len(_mnist()), generator=stream)[:ALL]


def _printed(main: Callable[[], int], *arguments: str) -> str:
    """The output of a command; a run that ends with NaN exits with 1."""
    given, output = ["andiron", *arguments], io.StringIO()
    with (
        mock.patch.multiple(sys, argv=given, orig_argv=given),
        contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):  # fmt: skip
        main()
    return output.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a line for each seed and kind, and the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seeds", type=int, default=30)
    options = parser.parse_args(arguments)
    actual, at_once, in_own = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(options.seeds):
        for kind in options.kinds or KINDS:
            name, (names, own) = poisoned_name(seed), first_samples(kind, seed)
            actual[kind] += name in names
            at_once[kind] += names[:1] == [name]
            in_own[kind] += own == name
            firsts = ", ".join(names)
            firsts += f"; of its own: {own}"
            print(f"seed {seed}, {kind}: {name}; first of the spikes: {firsts}", flush=True)
    for kind in options.kinds or KINDS:
        print(
            f"{kind}: actual in {actual[kind]} of {options.seeds}, "
            f"in {at_once[kind]} as the first sample of the largest spike, "
            f"in {in_own[kind]} as that of its own"
        )


if __name__ == "__main__":
    main()

"""Two checkouts, one training: whether this code gives the bits of another commit, run by run.

    python proofs/same_bits.py REFERENCE_CHECKOUT [--only NAME ...] [--keep FOLDER] [--jobs N]

Each configuration below is trained by `train.py` of both checkouts, on the CPU with one thread.
Then the two run folders are compared: every tensor of `model.safetensors` and of the averaged
weights bit for bit, every value of `metrics.jsonl` apart from times and the machine's own readings,
and every metric of `summary.json`, the test set's included. Some runs are resumed: after fewer
epochs, after SIGTERM, or from a folder that the reference wrote. `--keep` keeps the reference's
runs, so that they are made once. Needs the packages of `requirements-dev.txt`; the configurations
that read `ANDIRON_DATA_DIR` are left out where it is not set. Exits with 1 if a run differs.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parents[1]
OF_THE_MACHINE = ("time/", "system/")
SECONDS_AT_MOST = 600


@dataclass(frozen=True)
class Case:
    """One training: the overrides, and how it is stopped and resumed if it is."""

    name: str
    overrides: str
    then: str | None = None  # overrides beside `resume=`; None: the run is not resumed
    is_terminated: bool = False  # the first part ends with SIGTERM instead of its last epoch
    is_old: bool = False  # the first part is always the reference's


SMALL = "num_epochs=2 log_every=5"
FROZEN = "param_groups=head_only param_groups.body.frozen=30 averages=ema model.hidden=[32,32]"
CASES = (
    Case("defaults", "num_epochs=3"),
    Case("sgd_momentum", f"{SMALL} optimizer=sgd optimizer.nesterov=true scheduler=cosine"),
    Case("adam_amsgrad", f"{SMALL} optimizer=adam optimizer.amsgrad=true scheduler=exponential"),
    Case("adamw", f"{SMALL} optimizer=adamw param_groups=no_decay scheduler=one_cycle"),
    Case("rmsprop", f"{SMALL} optimizer=rmsprop scheduler=step"),
    Case("adagrad", f"{SMALL} optimizer=adagrad scheduler=linear"),
    Case("nadam", f"{SMALL} optimizer=nadam scheduler=polynomial"),
    Case("radam", f"{SMALL} optimizer=radam scheduler=cosine_restarts"),
    Case("adamax", f"{SMALL} optimizer=adamax"),
    Case("adadelta", f"{SMALL} optimizer=adadelta"),
    Case("adafactor", f"{SMALL} optimizer=adafactor"),
    Case("asgd", f"{SMALL} optimizer=asgd"),
    Case("lbfgs", "num_epochs=2 log_every=1 optimizer=lbfgs batch_size=512 model.hidden=[16]"),
    Case("lion", f"{SMALL} optimizer=lion scheduler=warmup"),
    Case("schedule_free", f"{SMALL} optimizer=schedule_free_adamw"),
    Case("muon_groups", f"{SMALL} param_groups=muon model.hidden=[32,32] scheduler=warmup"),
    Case("layerwise", f"{SMALL} param_groups=layerwise optimizer=adamw"),
    Case(
        "own_groups",
        "num_epochs=3 log_every=5 optimizer=adamw model.hidden=[32,32] scheduler=cosine clip=2.0 "
        "+param_groups.head={match:{tag:last},lr_scale:10,weight_decay:0.0,clip:0.5,every:3} "
        "+param_groups.first={match:{tag:first},frozen:30} "
        "+scheduler@param_groups.first.schedule=linear",
    ),
    Case("head_only", f"{SMALL} param_groups=head_only param_groups.body.frozen=20"),
    Case("accumulation", f"{SMALL} grads_accumulation=3 batch_size=50 log_every=2"),
    Case("ema", f"{SMALL} averages=ema"),
    Case(
        "ema_and_swa",
        "num_epochs=3 averages=[ema,swa] averages.swa.start=1epochs averages.swa.every=7 "
        "model=resnet model.depth=8 model.width=4",
    ),
    Case("sam", f"{SMALL} sam=0.05 optimizer=sgd"),
    Case("sam_accumulation", f"{SMALL} sam=0.05 grads_accumulation=2 clip=1.0"),
    Case("fp16", f"{SMALL} precision=fp16 clip=1.0 histograms=true"),
    Case("bf16", f"{SMALL} precision=bf16 optimizer=adamw"),
    Case(
        "early_stopping",
        "num_epochs=12 early_stopping=[patience,goal] early_stopping.patience.patience=2 lr=0.03 "
        "early_stopping.goal.goal=0.0001",
    ),
    Case(
        "plateau",
        "num_epochs=8 scheduler=plateau scheduler.patience=0 lr=0.02 scheduler.factor=0.5",
    ),
    Case("warmup_plateau", "num_epochs=4 scheduler=warmup_stable_decay model.dropout=0.3"),
    Case(
        "text",
        "data=text data.path={text} num_epochs=2 data.context_length=32 model.layers=2 "
        "model.dim=32 model.dropout=0.1 optimizer=adamw param_groups=no_decay "
        "scheduler=warmup clip=1.0",
    ),
    Case(
        "text_shakespeare",
        "data=text data.path={shakespeare} num_epochs=2 data.context_length=64 "
        "data.level=characters data.cache={cache} model.layers=2 model.dim=32 "
        "optimizer=adamw log_every=10",
    ),
    Case("gan", "experiment=gan_digits num_epochs=2 log_every=3"),
    Case(
        "convnet",
        f"{SMALL} model=convnet model.hidden=64 augmentation=[shift,cutout] "
        "augmentation.cutout.size=3 optimizer=adamw",
    ),
    Case(
        "mnist_convnet",
        "data=partial data@data.data=mnist data.fraction=0.02 model=convnet num_epochs=2 "
        "augmentation=[shift,rotate] log_every=5",
    ),
    Case("mixup", f"{SMALL} model=lenet augmentation=[crop,flip,mixup] channels_last=true"),
    Case("vit", f"{SMALL} model=vit model.depth=2 model.dim=32 optimizer=adamw"),
    Case("multilabel", "experiment=labels_digit_pairs num_epochs=2 batch_size=100 model.hidden=32"),
    Case("regression", "experiment=diabetes num_epochs=6 loss=huber"),
    Case("regression_mae", "data=diabetes num_epochs=4 loss=mean_absolute_error batch_size=33"),
    Case("classification_full", f"{SMALL} metrics=classification_full"),
    Case("balanced", "data=balanced num_epochs=2 loss.label_smoothing=0.1"),
    Case("kfold", "data=kfold data@data.data=digits data.fold=1 num_epochs=2"),
    Case("synthetic", "data=synthetic num_epochs=2"),
    Case("clip_joint", f"{SMALL} clip=0.5 optimizer=sgd"),
    Case("clip_norm", f"{SMALL} clip={{norm:0.3}} optimizer=sgd"),
    Case("clip_value", f"{SMALL} clip={{value:0.01}} optimizer=sgd"),
    Case("histograms", f"{SMALL} histograms=true model=convnet model.hidden=32"),
    Case("activation_checkpointing", f"{SMALL} model=resnet model.depth=8 model.width=4 "
         "activation_checkpointing=blocks"),
    Case("workers", f"{SMALL} num_workers=1 augmentation=shift"),
    Case(
        "resumed_longer",
        "num_epochs=1 model.dropout=0.2 scheduler=cosine averages=ema log_every=4",
        then="num_epochs=3",
    ),
    Case(
        "resumed_accumulation",
        "num_epochs=1 grads_accumulation=3 optimizer=sgd log_every=2 early_stopping=patience",
        then="num_epochs=3",
    ),
    Case(
        "terminated",
        "num_epochs=30 log_every=1 model.dropout=0.2 averages=ema scheduler=plateau "
        "histograms=true",
        then="",
        is_terminated=True,
    ),
    Case(
        "terminated_lbfgs",
        "num_epochs=6 log_every=1 optimizer=lbfgs lr=0.1 batch_size=256 model.hidden=[16]",
        then="",
        is_terminated=True,
    ),
    Case("old_finished", "num_epochs=2 averages=ema", then="num_epochs=4", is_old=True),
    Case(
        "old_terminated",
        "num_epochs=20 log_every=1 model=convnet model.hidden=32 param_groups=muon "
        "averages=[ema,swa] averages.swa.start=2epochs scheduler=warmup "
        "early_stopping=patience histograms=true "
        "augmentation=shift metrics=classification_full",
        then="",
        is_terminated=True,
        is_old=True,
    ),
    Case(
        "old_fp16",
        "num_epochs=20 log_every=1 precision=fp16 grads_accumulation=2 scheduler=plateau "
        "optimizer=sgd model.dropout=0.1 clip=1.0 checkpoint=milestones",
        then="",
        is_terminated=True,
        is_old=True,
    ),
    Case(
        "old_frozen_groups",
        f"num_epochs=1 {FROZEN}",
        then="num_epochs=3",
        is_old=True,
    ),
    Case(
        "old_gan",
        "experiment=gan_digits num_epochs=4 log_every=1",
        then="",
        is_terminated=True,
        is_old=True,
    ),
)  # fmt: skip


class Failed(Exception):
    """A training process that ended with another exit code than it should have."""


@dataclass(frozen=True)
class Side:
    """A checkout, and what the overrides' placeholders stand for."""

    checkout: Path
    places: dict[str, str]
    device: str = "cpu"

    def trained(self, case: Case, folder: Path, started: Path | None = None) -> Path:
        """The folder of the finished run; `started`: a first part that is there already, copied."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if started:
            shutil.copytree(started, folder)
        else:
            self.run(case.overrides, f"hydra.run.dir={folder}", watched=folder, case=case)
            if case.then is not None and case.is_old:
                shutil.copytree(folder, folder.with_name("started"), dirs_exist_ok=True)
        if case.then is not None:
            self.run(case.then, f"resume={folder}")
        return folder

    def run(
        self, overrides: str, place: str, watched: Path | None = None, case: Case | None = None
    ) -> None:
        """One process of train.py; it gets SIGTERM in its second epoch if the case wants it so."""
        for name, path in self.places.items():
            overrides = overrides.replace(f"{{{name}}}", path)
        command = [sys.executable, self.checkout / "train.py", *overrides.split(), place]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"} | {"PYTHONPATH": ""}
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                [*command, "render=plain", f"device={self.device}"],
                cwd=self.places["cwd"], env=environment, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            expected = 0
            if case and case.is_terminated and watched:
                expected = 128 + signal.SIGTERM if _terminated(process, watched) else 0
            code = process.wait(timeout=SECONDS_AT_MOST)
            if code != expected:
                said.seek(0)
                last = " | ".join(said.read().strip().splitlines()[-3:])
                raise Failed(f"exit code {code}, not {expected}: {last}")


def _terminated(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Sends SIGTERM once the run has logged in its second epoch; whether it was still training."""
    deadline = time.monotonic() + SECONDS_AT_MOST
    while process.poll() is None and time.monotonic() < deadline:
        if len(logged(folder)) and logged(folder)[-1].get("epoch", 0) >= 2:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=SECONDS_AT_MOST)
            return process.returncode != 0
        time.sleep(0.005)
    return False


def logged(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of metrics.jsonl, without what was measured of the machine."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [
        {name: value for name, value in json.loads(line).items() if _is_compared(name)}
        for line in lines
    ]


def _is_compared(name: str) -> bool:
    return not name.startswith(OF_THE_MACHINE)


def differences(reference: Path, new: Path) -> Iterator[str]:
    """Differences between two folders of finished runs, in words."""
    yield from _logged_differences(reference, new)
    yield from _summary_differences(reference, new)
    names = sorted(path.name for path in reference.glob("model*.safetensors"))
    if result := sorted(path.name for path in new.glob("model*.safetensors")) != names:
        yield f"files of weights: {result}, not {names}"
    for name in names:
        if (new / name).is_file():
            yield from _tensor_differences(name, load_file(reference / name), load_file(new / name))


def _logged_differences(reference: Path, new: Path) -> Iterator[str]:
    expected, actual = logged(reference), logged(new)
    if len(actual) != len(expected):
        yield f"metrics.jsonl has {len(actual)} lines, not {len(expected)}"
    for number, (ours, theirs) in enumerate(zip(expected, actual, strict=False), 1):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            before, after = repr(ours.get(name)), repr(theirs.get(name))  # repr: nan equals nan
            if before != after:
                yield (
                    f"metrics.jsonl line {number} (update {ours.get('updates')}): "
                    f"{name} is {after}, not {before}"
                )
                return  # what comes after it follows from it


def _summary_differences(reference: Path, new: Path) -> Iterator[str]:
    before, after = (
        {(row["split"], row["metric"]): row for row in _metrics(path)} for path in (reference, new)
    )
    for place in {**before, **after}:
        if repr(before.get(place)) != repr(after.get(place)):
            yield f"summary.json, {place}: {after.get(place)}, not {before.get(place)}"
            return


def _metrics(folder: Path) -> list[dict[str, Any]]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = summary["metrics"]
    return rows


def _tensor_differences(
    file: str, expected: dict[str, torch.Tensor], actual: dict[str, torch.Tensor]
) -> Iterator[str]:
    if expected.keys() != actual.keys():
        yield f"{file}: names differ: {sorted(expected.keys() ^ actual.keys())[:4]}"
        return
    for name, tensor in expected.items():
        other = actual[name]
        if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
            found_kind, kind = (f"{value.dtype} {[*value.shape]}" for value in (other, tensor))
            yield f"{file}: {name} is {found_kind}, not {kind}"
        elif not torch.equal(_bytes(tensor), _bytes(other)):
            yield f"{file}: {name} has other bits"


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def compared(case: Case, reference: Side, new: Side, kept: Path) -> list[str]:
    """Differences in one case; the reference's run is taken from `kept` where it is there."""
    folder = kept / case.name
    made, started, record = folder / "reference", folder / "started", folder / "case.json"
    try:
        if not record.is_file() or record.read_text() != repr(case):
            shutil.rmtree(folder, ignore_errors=True)
            reference.trained(case, made)
            if case.is_old and not started.is_dir():
                raise Failed("the first part was not kept")
            record.write_text(repr(case))
        ours = new.trained(case, folder / "new", started if case.is_old else None)
        return list(differences(made, ours))
    except (Failed, OSError, subprocess.TimeoutExpired, KeyError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]


def places(kept: Path) -> dict[str, str]:
    """Values of the placeholders of the overrides; the texts are written into `kept`."""
    result = {"cwd": str(kept), "cache": str(kept / "cache"), "text": str(kept / "text.txt")}
    words = ("frame", "log", "fire", "ember", "ash", "iron", "burn", "holds", "the", "a")
    numbers = torch.randint(len(words), (6000,), generator=torch.Generator().manual_seed(0))
    Path(result["text"]).write_text(" ".join(words[number] for number in numbers.tolist()))
    data = os.environ.get("ANDIRON_DATA_DIR")
    if data and (source := Path(data) / "tinyshakespeare" / "input.txt").is_file():
        result["shakespeare"] = str(kept / "shakespeare.txt")
        Path(result["shakespeare"]).write_bytes(source.read_bytes()[:60_000])
    return result


def offered(names: Sequence[str]) -> list[Case]:
    """The cases to run: all, or those named; those whose data is not there are left out."""
    data = Path(os.environ.get("ANDIRON_DATA_DIR", ""))
    absent = set()
    if not (data / "MNIST").is_dir():
        absent.add("mnist_convnet")
    if not (data / "tinyshakespeare").is_dir():
        absent.add("text_shakespeare")
    return [case for case in CASES if case.name not in absent and (not names or case.name in names)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reference", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--new", type=Path, default=HERE, help="the checkout to test; this one")
    parser.add_argument("--only", nargs="+", default=[], choices=[case.name for case in CASES])
    parser.add_argument("--keep", type=Path, help="folder for the runs; the reference's are reused")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = (arguments.keep or Path(temporary)).resolve()
        kept.mkdir(parents=True, exist_ok=True)
        reference, new = (
            Side(path.resolve(), places(kept)) for path in (arguments.reference, arguments.new)
        )
        failed = 0
        with ThreadPoolExecutor(arguments.jobs) as pool:
            cases = offered(arguments.only)
            for case, result in zip(
                cases,
                pool.map(lambda case: compared(case, reference, new, kept), cases),
                strict=True,
            ):
                verdict = "DIFFERS" if result else "same bits"
                print(f"{case.name:<26}{verdict}", *result[:4], sep="\n    ", flush=True)
                failed += bool(result)
    print(f"{len(cases) - failed} of {len(cases)} as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

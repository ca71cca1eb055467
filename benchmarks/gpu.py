"""Everything that needs a GPU, in at most eight minutes, as one table.

    python benchmarks/gpu.py [--only SECTION ...] [--device cuda] [--tiny] [--out FOLDER]

Sections: the tests marked `gpu`; steps a second and peak memory of five networks beside bare
PyTorch loops, in fp32, tf32 and bf16, compiled, and with `graph=true`, beside the bare step as a
CUDA graph; how much of the copy to the device is hidden behind the step; how long a checkpoint
holds the step up; whether a resumed run gives the same bits; an epoch of
`experiment=cifar10_resnet` on made-up pictures. Every section has its own time limit, and all
together seven minutes: rows that would begin after it are left out and the table says so. After
eight minutes the process ends with the traceback of what it waits for. A section that fails has its
error in the table, and the exit code is 1. `--device cpu --tiny` runs the same code in small, as a
test does. Needs the packages of `requirements.txt` alone, from a checkout; the marked tests need
those of `requirements-dev.txt`. `--out` keeps the table in `table.md`, as far as it goes, and the
rows as they come, the output of the tests and what was logged in `log.txt`. `--only graphs tests`
is the battery of graphs.
"""

import argparse
import faulthandler
import importlib.util
import itertools
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # a plain checkout needs no install of its own

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import rounds  # noqa: E402
from andiron import data, models, tasks  # noqa: E402
from andiron.checkpoint import Checkpoint, FileCheckpointer, KeepLast  # noqa: E402
from andiron.data import DataLoader, DataLoaderBuilder, Splits, prefetch  # noqa: E402
from andiron.learner import LearnerBuilder  # noqa: E402
from andiron.metrics import Loss  # noqa: E402
from andiron.optim import Optimizer  # noqa: E402
from andiron.writers import JsonLinesWriter  # noqa: E402
from andiron_lab.data.synthetic import synthetic  # noqa: E402
from andiron_lab.networks import ViT  # noqa: E402
from proofs import same_bits  # noqa: E402

LR = 1e-3
LAST_ROW, LAST_SECOND = 420, 478  # seconds after which no row begins, and the process ends
HEADER = ("what", "Andiron", "bare", "ratio", "peak MiB", "note")
Row = tuple[str, str, str, str, str, str]


def row(
    what: str, ours: str = "", bare: str = "", ratio: str = "", peak: str = "", note: str = ""
) -> Row:
    return what, ours, bare, ratio, peak, note


@dataclass(frozen=True)
class Place:
    """Where and how large everything is measured."""

    device: torch.device
    tiny: bool
    folder: Path  # for what is written

    @property
    def rounds(self) -> int:
        return 1 if self.tiny else 3

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def peak(self) -> str:
        """The most memory since `forget_peak`, in MiB."""
        if self.device.type != "cuda":
            return "-"
        return f"{torch.cuda.max_memory_allocated(self.device) / 2**20:,.0f}"

    def forget_peak(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)

    def seconds(self, run: Callable[[], object]) -> float:
        """The time of `run` until the device is done with it."""
        self.synchronize()
        started = time.perf_counter()
        run()
        self.synchronize()
        return time.perf_counter() - started


@dataclass(frozen=True)
class Work:
    """One network with data for some updates."""

    name: str
    network: Callable[[], nn.Module]
    splits: Splits
    batch_size: int
    epochs: int  # of about a hundred updates each
    is_language: bool = False

    def loader(self, place: Place) -> DataLoader:
        builder = DataLoaderBuilder(self.splits.batcher).batch_size(self.batch_size)
        return builder.shuffle(0).device(place.device).build(self.splits.train)


def images(shape: tuple[int, ...], number: int) -> Splits:
    """Made-up pictures: `number` to train on and a few to validate on."""
    return synthetic(
        num_samples=number + 20, input_shape=shape, num_classes=10, valid=10 / (number + 10),
        test=10 / (number + 20), split_seed=0,
    )  # fmt: skip


def text(place: Place, context: int, windows: int) -> Splits:
    """Random bytes as text, cut into windows; a tenth of it held out twice."""
    path = place.folder / f"text-{context}-{windows}"
    length = (context + 1) * (windows + 40)
    letters = torch.randint(97, 123, (length,), generator=torch.Generator().manual_seed(0))
    path.write_bytes(bytes(letters.tolist()))
    return data.text(path=str(path), context_length=context, valid=0.1, test=0.1)


def works(place: Place) -> Iterator[Work]:
    """The five networks, at sizes that a small project has; or as small as they can be."""
    if place.tiny:
        steps, batch, context, epochs = 4, 4, 16, (1, 1, 1, 1, 1)
        hidden, convnet, resnet = (8,), {"hidden": 8}, {"depth": 8, "width": 4}
        blocks = {"dim": 16, "heads": 2}, 1
    else:
        steps, batch, context, epochs = 100, 128, 256, (5, 3, 2, 2, 2)
        hidden, convnet, resnet = (512, 256), {"hidden": 512}, {"depth": 20, "width": 32}
        blocks = {"dim": 256, "heads": 4}, 6
    small, coloured, (shape, layers) = (1, 28, 28), (3, 32, 32), blocks
    grey, pictures = images(small, steps * batch), images(coloured, steps * batch)
    words = text(place, context, steps * batch // 4)
    makers: dict[str, Callable[[], nn.Module]] = {
        "MLP": lambda: models.MLP(small, 10, hidden=hidden),
        "convnet": lambda: models.ConvNet(small, 10, **convnet),
        f"ResNet-{resnet['depth']}": lambda: models.ResNet(coloured, 10, **resnet),
        "ViT": lambda: ViT(coloured, 10, depth=layers, **shape),
        "GPT": lambda: models.GPT(256, context, layers=layers, **shape),
    }
    data_of = {"MLP": grey, "convnet": grey, "GPT": words}
    for (name, make), number in zip(makers.items(), epochs, strict=True):
        size = batch // 4 if name == "GPT" else batch
        yield Work(name, make, data_of.get(name, pictures), size, number, name == "GPT")


def set_precision(name: str) -> None:
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = name == "tf32"


class Bare:
    """A loop over tensors that lie on the device: gather, forward, backward, fused Adam."""

    def __init__(self, work: Work, network: nn.Module, precision: str, place: Place):
        batches = list(work.loader(place).epoch(0))
        self.inputs = torch.cat([batch.inputs for batch in batches])
        self.targets = torch.cat([batch.targets for batch in batches])
        self.work, self.network, self.precision = work, network, precision
        self.optimizer = torch.optim.Adam(network.parameters(), LR, fused=True)

    def prepared(self) -> Callable[[], None]:
        return self.train

    def train(self) -> None:
        set_precision(self.precision)
        for _ in range(self.work.epochs):
            order = torch.randperm(len(self.targets), device=self.targets.device)
            for chosen in order.split(self.work.batch_size):
                self.step(self.inputs[chosen], self.targets[chosen])

    def step(self, inputs: Tensor, targets: Tensor) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            output = self.network(inputs)
            loss = functional.cross_entropy(output.flatten(0, -2), targets.flatten())
        loss.backward()
        self.optimizer.step()


class Ours:
    """The Learner over the same data, with metrics, log and a small validation every epoch."""

    graph = False

    def __init__(self, work: Work, network: nn.Module, precision: str, place: Place):
        task = tasks.LanguageModel if work.is_language else tasks.Classifier
        self.work, self.precision, self.place = work, precision, place
        self.model = task(network).to(place.device)
        self.train = work.loader(place)
        builder = DataLoaderBuilder(work.splits.batcher).batch_size(work.batch_size)
        self.valid = builder.device(place.device).build(work.splits.valid)

    def prepared(self) -> Callable[[], None]:
        folder = Path(tempfile.mkdtemp(dir=self.place.folder))
        learner = (
            LearnerBuilder(folder).metric_train_numeric(Loss()).metric_valid_numeric(Loss())
            .with_writers(JsonLinesWriter(folder / "metrics.jsonl"))
            .devices([self.place.device]).renderer(None)
            .options(num_epochs=self.work.epochs, precision=self.precision, graph=self.graph)
            .build(self.model, Optimizer(torch.optim.Adam, self.model), LR)
        )  # fmt: skip
        updater = learner.updater
        parts = updater.train_step, updater.end_by_graph
        self.parts = [part and part.recordings for part in parts]

        def train() -> None:
            with learner:
                learner.fit(self.train, self.valid)

        return train


class Graphed(Ours):
    """The same with `graph=true`."""

    graph = True


def compared(
    work: Work, precision: str, place: Place, *, is_compiled: bool = False, ours: type[Ours] = Ours
) -> Row:
    """Steps a second of both sides, which take turns, and the peak memory of each; the first turn
    does not count.
    """
    steps = len(work.loader(place)) * work.epochs
    rates: dict[str, list[float]] = {}
    peaks, first, note = {}, {}, ""
    for side, kind in (("Andiron", ours), ("bare", Bare)):
        torch.manual_seed(0)
        network = work.network().to(place.device)
        if is_compiled:
            network.compile(backend="eager" if place.tiny else "inductor")
        place.forget_peak()
        running = kind(work, network, precision, place)
        first[side] = place.seconds(running.prepared())
        rates[side] = [steps / place.seconds(running.prepared()) for _ in range(place.rounds)]
        peaks[side] = place.peak()
        torch.compiler.reset()
        if isinstance(running, Graphed):
            notes = ["there is none" if part is None else part.reason
                     or f"{part.repetitions} repetitions in the last round"
                     for part in running.parts]  # fmt: skip
            note = f"step: {notes[0]}; end of an update: {notes[1]}"
    rate, bare = statistics.median(rates["Andiron"]), statistics.median(rates["bare"])
    name = f"{work.name}, {precision}{', compiled' if is_compiled else ''}"
    name += ", graph=true" if ours.graph else ""
    if is_compiled:
        note = f"compiled in {first['Andiron']:.0f} and {first['bare']:.0f} s"
    peak = f"{peaks['Andiron']} / {peaks['bare']}"
    return row(name, f"{rate:.1f} steps/s", f"{bare:.1f} steps/s", f"{bare / rate:.2f}", peak, note)


def graph(work: Work, place: Place) -> Row:
    """A bare step captured as a CUDA graph, replayed with new batches copied into it."""
    name = f"{work.name}, fp32, CUDA graph"
    if place.device.type != "cuda":
        return row(name, note="needs CUDA")
    network = work.network().to(place.device)
    bare = Bare(work, network, "fp32", place)
    bare.optimizer = torch.optim.Adam(network.parameters(), LR, fused=True, capturable=True)
    inputs, targets = (tensor[: work.batch_size].clone() for tensor in (bare.inputs, bare.targets))
    stream = torch.cuda.Stream(place.device)
    stream.wait_stream(torch.cuda.current_stream(place.device))
    with torch.cuda.stream(stream):  # as torch asks for before a capture
        for _ in range(3):
            bare.step(inputs, targets)
    torch.cuda.current_stream(place.device).wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    bare.optimizer.zero_grad()
    with torch.cuda.graph(captured):
        bare.step(inputs, targets)

    def epoch() -> None:
        for chosen in torch.randperm(len(bare.targets), device=place.device).split(work.batch_size):
            inputs.copy_(bare.inputs[chosen])
            targets.copy_(bare.targets[chosen])
            captured.replay()

    steps = len(bare.targets) // work.batch_size
    rate = statistics.median(steps / place.seconds(epoch) for _ in range(place.rounds))
    return row(name, "", f"{rate:.1f} steps/s", note="bare")


def speed(place: Place) -> Iterator[Callable[[], Row]]:
    """Every network in every precision, eager."""
    for work in works(place):
        for precision in ("fp32", "bf16") if place.tiny else ("fp32", "tf32", "bf16"):
            yield lambda work=work, precision=precision: compared(work, precision, place)


def compiled(place: Place) -> Iterator[Callable[[], Row]]:
    """Every network compiled, in bf16; of the small ones, where everything is small, the first
    alone.
    """
    for work in itertools.islice(works(place), 1 if place.tiny else None):
        yield lambda work=work: compared(work, "bf16", place, is_compiled=True)


def graphs(place: Place) -> Iterator[Callable[[], Row]]:
    """The networks with `graph=true`, and the bare steps of the small ones as CUDA graphs."""
    for number, work in enumerate(works(place)):
        precision = "fp32" if number < 3 else "bf16"
        if number < 2:
            yield lambda work=work: graph(work, place)
        yield lambda work=work, precision=precision: compared(work, precision, place, ours=Graphed)
        yield lambda work=work, precision=precision: compared(work, precision, place)


def copying(place: Place) -> Iterator[Callable[[], Row]]:
    """How much of the copy to the device runs while the step before it does."""
    yield lambda: overlap(place)


def overlap(place: Place) -> Row:
    """The time of steps over batches that are there, copied one by one, and copied ahead by
    `data.prefetch`.
    """
    size, number = (64, 4) if place.tiny else (4096, 50)
    batcher = data.ImageBatcher(mean=0.5, std=0.25)
    pixels = torch.zeros(size, 3, 32, 32, dtype=torch.uint8)
    raw = data.RawBatch(pixels, torch.zeros(size, dtype=torch.long))
    raw = prefetch.pinned(raw) if place.device.type == "cuda" else raw
    there = batcher(raw, place.device)
    network = models.ResNet((3, 32, 32), 10, depth=8, width=4 if place.tiny else 8).to(place.device)

    def train(batches: Iterator[data.Batch]) -> None:
        for batch in batches:
            functional.cross_entropy(network(batch.inputs), batch.targets).backward()

    sides = {
        "there": lambda: train(iter([there] * number)),
        "one by one": lambda: train(batcher(raw, place.device) for _ in range(number)),
        "ahead": lambda: train(prefetch.batches([raw] * number, batcher, place.device)),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(place.rounds + 1):
        for name, run in sides.items():
            times[name].append(place.seconds(run))
    median = {name: 1000 * statistics.median(result[1:]) / number for name, result in times.items()}
    cost = median["one by one"] - median["there"]
    hidden = f"{(median['one by one'] - median['ahead']) / cost:.0%}" if cost > 0 else "nothing"
    note = f"{median['there']:.2f} ms where the batch is there; {hidden} of the copy hidden"
    ours, bare = f"{median['ahead']:.2f} ms a step", f"{median['one by one']:.2f} ms a step"
    ratio = f"{median['ahead'] / median['one by one']:.2f}"
    return row("batch copied ahead, or by the step", ours, bare, ratio, note=note)


def checkpoints(place: Place) -> Iterator[Callable[[], Row]]:
    """What a checkpoint holds up the step."""
    for megabytes in (1,) if place.tiny else (10, 1000):
        yield lambda megabytes=megabytes: checkpoint(place, megabytes)


def checkpoint(place: Place, megabytes: int) -> Row:
    """How long `save` holds its caller, beside `torch.save` of the same tensors."""
    tensors = {f"{n}": torch.randn(2**18, device=place.device) for n in range(megabytes)}
    saver = FileCheckpointer(place.folder / f"checkpoints-{megabytes}", KeepLast(1))
    held = []
    for number in range(1, place.rounds + 2):
        state = Checkpoint(tensors, {}, {"updates": number})
        held.append(place.seconds(lambda state=state, number=number: saver.save(number, state, {})))
        saver.wait()
    saver.close()
    path = place.folder / "state.pt"
    bare = [place.seconds(lambda: torch.save(tensors, path)) for _ in range(place.rounds)]
    path.unlink()
    ours, theirs = 1000 * statistics.median(held[1:]), 1000 * statistics.median(bare)
    note = f"the first one {1000 * held[0]:.1f} ms; bare is torch.save"
    ratio = f"{ours / theirs:.2f}"
    name = f"step held up by {megabytes} MB"
    return row(name, f"{ours:.1f} ms", f"{theirs:.1f} ms", ratio, note=note)


def resume(place: Place) -> Iterator[Callable[[], Row]]:
    """Whether a run stopped in the middle and resumed has the bits of one that was not."""
    size = "num_epochs=6 log_every=1"
    dropout = f"{size} model.dropout=0.2 averages=ema"
    choices = {"MLP": dropout, "convnet in bf16": f"{size} model=convnet precision=bf16"}
    for name, overrides in itertools.islice(choices.items(), 1 if place.tiny else None):
        yield lambda name=name, overrides=overrides: resumed(place, name, overrides)


def resumed(place: Place, name: str, overrides: str) -> Row:
    side = same_bits.Side(ROOT, {"cwd": str(place.folder)}, place.device.type)
    own = name.split()[0]
    straight, stopped = (place.folder / f"{kind}-{own}" for kind in ("straight", "stopped"))
    side.trained(same_bits.Case(name, overrides), straight)
    side.trained(same_bits.Case(name, overrides, then="", is_terminated=True), stopped)
    result = list(same_bits.differences(straight, stopped))
    if result:
        raise RuntimeError(f"{name}, stopped and resumed: {result[0]}")
    return row(f"{name}, stopped and resumed", "same bits", "same bits")


def cifar(place: Place) -> Iterator[Callable[[], Row]]:
    """The time of `experiment=cifar10_resnet`, on made-up pictures of CIFAR's size."""
    yield lambda: experiment(place)


def experiment(place: Place) -> Row:
    epochs, number = (1, 300) if place.tiny else (3, 60_000)
    shrunk = ("model.depth=8", "model.width=2", "precision=fp32") if place.tiny else ()
    run_dir = place.folder / "cifar10_resnet"
    overrides = (
        "experiment=cifar10_resnet", "data=synthetic", f"data.num_samples={number}",
        "data.input_shape=[3,32,32]", f"num_epochs={epochs}", *shrunk,
        f"device={place.device.type}", "render=plain", f"hydra.run.dir={run_dir}",
    )  # fmt: skip
    command = [sys.executable, ROOT / "train.py", *overrides]
    done = subprocess.run(command, cwd=place.folder, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise RuntimeError(f"train.py ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [line["time/step"] for line in lines if "time/step" in line]
    last = statistics.median(steps[len(steps) // 2 :])
    whole = json.loads((run_dir / "summary.json").read_text())["seconds"]
    note = f"{1000 * last:.2f} ms an update, of {number * 0.81:,.0f} images"
    return row(f"cifar10_resnet, {epochs} epochs", f"{whole:.1f} s", note=note)


def marked(place: Place) -> Iterator[Callable[[], Row]]:
    """The tests marked `gpu`."""
    yield lambda: tests(place)


def tests(place: Place) -> Row:
    missing = [name for name in ("pytest", "beartype") if importlib.util.find_spec(name) is None]
    if missing:
        return row("tests marked gpu", note=f"not run: {', '.join(missing)} not installed")
    options = ("-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "no:benchmark")
    command = [sys.executable, "-m", "pytest", *options, *gpu_tests()[: 1 if place.tiny else None]]
    shown = {**os.environ, "ANDIRON_TEST_GPU": "1"}  # the other tests are for a CPU
    with tempfile.TemporaryFile("w+") as said:
        parts = {"cwd": ROOT, "env": shown, "stdout": said, "stderr": subprocess.STDOUT}
        try:
            code = subprocess.run(command, timeout=200, **parts).returncode
        finally:
            said.seek(0)
            output = said.read()
            logging.info("%s", output)
    verdict = (output.strip().splitlines() or [""])[-1]
    if code:
        raise RuntimeError(f"tests marked gpu: {verdict}")
    return row("tests marked gpu", verdict.strip("= "))


def gpu_tests() -> list[str]:
    """The files with such tests: the others need not be imported."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path) for path in paths if "mark.gpu" in path.read_text(encoding="utf-8")]


Section = Callable[[Place], Iterator[Callable[[], Row]]]
SECTIONS: dict[str, tuple[Section, float]] = {  # and after how many seconds no row of it begins
    "tests": (marked, 1),
    "resume": (resume, 40),
    "cifar": (cifar, 1),
    "checkpoints": (checkpoints, 20),
    "copying": (copying, 1),
    "graphs": (graphs, 180),
    "speed": (speed, 110),
    "compiled": (compiled, 90),
}


def rows(name: str, place: Place, seconds_left: float) -> Iterator[tuple[Row, bool]]:
    """The rows of a section, and whether each is as it should be."""
    section, limit = SECTIONS[name]
    started, limit = time.monotonic(), min(limit, seconds_left)
    try:
        for number, measure in enumerate(section(place)):
            if (number or limit < 0) and time.monotonic() - started > limit:
                yield row(f"more of {name}", note=f"left out: {max(limit, 0):.0f} s are over"), True
                return
            yield measure(), True
    except Exception as error:  # noqa: BLE001 - the other sections are measured all the same
        logging.exception("%s", name)
        words = " ".join(str(error).split())[:150]
        yield row(name, "FAILED", note=f"{type(error).__name__}: {words}"), False


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="as small as it can be")
    parser.add_argument("--out", type=Path, help="folder for table.md and log.txt")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=arguments.out / "log.txt", level=logging.INFO)
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("error: --device cuda: this machine has none; --device cpu --tiny runs the code")
    if device.type == "cpu":
        torch.set_num_threads(1)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    started, table, is_sound, report = time.monotonic(), [], True, ""
    log = open(arguments.out / "log.txt", "a") if arguments.out else sys.stderr  # noqa: SIM115
    faulthandler.dump_traceback_later(LAST_SECOND, exit=True, file=log)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(device, arguments.tiny, Path(folder))
        for name in arguments.only:
            for line, is_right in rows(name, place, LAST_ROW - (time.monotonic() - started)):
                print(*line, sep="  ", file=sys.stderr, flush=True)
                logging.info("%s", "  ".join(line))
                table.append(line)
                is_sound &= is_right
                seconds = time.monotonic() - started
                heading = f"{where}, {rounds.machine(torch.get_num_threads())}; {seconds:.0f} s\n"
                report = f"{heading}\n{rounds.table(HEADER, table)}"
                if arguments.out:
                    (arguments.out / "table.md").write_text(report + "\n", encoding="utf-8")
    faulthandler.cancel_dump_traceback_later()
    print(report)
    return 0 if is_sound else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())

"""`strategy=fsdp` beside copies and beside a bare `fully_shard` loop, in the processes of torchrun.

    torchrun --standalone --nproc-per-node=N benchmarks/sharded_gpu.py [--device cuda] [--layers 12]

Each side makes the same updates of a GPT by fused AdamW; the table has, of rank 0, milliseconds and
CPU seconds an update, the bytes of all live tensors after it, and on GPUs the allocator's peak and
the share of the time of NCCL's kernels in which another kernel runs too. Then one block's gradients
are added up by torch's reduce-scatter, and in the fixed order of `slices`. One process, which
`strategy=fsdp` refuses, measures the other sides. The default network takes minutes on GPUs.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # a plain checkout

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.autograd import DeviceType  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from andiron.data import ArrayDataset, DataLoaderBuilder  # noqa: E402
from andiron.data.on_disk.text_file import TextBatcher  # noqa: E402
from andiron.distributed import World  # noqa: E402
from andiron.learner import LearnerBuilder  # noqa: E402
from andiron.models import GPT  # noqa: E402
from andiron.optim import Optimizer  # noqa: E402
from andiron.tasks import LanguageModel  # noqa: E402
from andiron_lab.sharded.exchanges import BlockSum, StepPlace  # noqa: E402
from andiron_lab.sharded.fully_sharded import FullySharded  # noqa: E402

VOCABULARY, CONTEXT, BATCH = 256, 128, 16
WARM_UP, UPDATES = 3, 10
Seconds = tuple[float, float]  # of the clock, and of the processor


def network(options: argparse.Namespace) -> GPT:
    """The network of every side, with the same weights in all processes."""
    torch.manual_seed(7)
    return GPT(VOCABULARY, CONTEXT, layers=options.layers, heads=8, dim=options.dim)


def tokens() -> torch.Tensor:
    """The samples of all updates: [samples, context + 1]."""
    generator = torch.Generator().manual_seed(3)
    shape = BATCH * (WARM_UP + UPDATES), CONTEXT + 1
    return torch.randint(0, VOCABULARY, shape, generator=generator)


def of_learner(world: World, device: torch.device, options: argparse.Namespace) -> list[Seconds]:
    """The times of updates of a learner in this world."""
    task = LanguageModel(network(options))
    if options.side.startswith("fsdp"):
        FullySharded(task, world, init_device_mesh(device.type, (world.size,)))
    task.to(device)
    sequences = tokens()
    data = ArrayDataset(sequences[:, :-1].clone(), sequences[:, 1:].clone())
    loader = DataLoaderBuilder(TextBatcher()).batch_size(BATCH).device(device).world(world)
    train = loader.build(data)
    builder = LearnerBuilder(None, num_epochs=1).renderer(None).world(world).unrecorded()
    times = []
    optimizer = Optimizer(torch.optim.AdamW, task)
    with (
        builder.devices([device]).build(task, optimizer, 1e-3) as learner, learner.training(train)
    ):
        for batches in learner.batches_of_epoch(train):
            update = partial(learner.update, batches, train)
            times.append(timed(update, device, options))
        put_memory(options, device)
    return times


def of_bare_loop(world: World, device: torch.device, options: argparse.Namespace) -> list[Seconds]:
    """The times of updates of a plain loop around `fully_shard`."""
    module: Any = network(options).to(device)
    for block in module.blocks:
        fully_shard(block)
    fully_shard(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    times = []
    for sequences in torch.split(tokens().to(device), BATCH):
        part = sequences.chunk(world.size)[world.rank]

        def update(part: torch.Tensor = part) -> None:
            logits = module(part[:, :-1])
            loss: Any = functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        times.append(timed(update, device, options))
    put_memory(options, device)
    return times


def timed(
    call: Callable[[], object], device: torch.device, options: argparse.Namespace
) -> Seconds:
    """The seconds of a call, with what it has begun on a GPU; a GPU's fifth call is traced."""
    options.calls += 1
    is_traced = device.type == "cuda" and options.calls == WARM_UP + 2
    with profile(activities=[ProfilerActivity.CUDA]) if is_traced else nullcontext() as trace:
        started, processor = time.perf_counter(), time.process_time()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started, time.process_time() - processor
    if trace is not None:
        options.overlap = overlap(trace.events())
    return seconds


def overlap(events: Any) -> str:
    """The share of the time of NCCL's kernels in which another kernel runs too."""
    kernels = [event for event in events if event.device_type == DeviceType.CUDA]
    exchanges = [event.time_range for event in kernels if "nccl" in event.name.lower()]
    others = [event.time_range for event in kernels if "nccl" not in event.name.lower()]
    both, end = 0.0, 0.0
    for other in sorted(others, key=lambda one: one.start):
        begin, end = max(end, other.start), max(end, other.end)  # no moment counts twice
        both += sum(max(0.0, min(end, one.end) - max(begin, one.start)) for one in exchanges)
    total = sum(one.end - one.start for one in exchanges)
    return f"{both / total:.0%}" if total else "none"


def put_memory(options: argparse.Namespace, device: torch.device) -> None:
    """Notes the bytes of all live tensors, and the allocator's peak."""
    gc.collect()
    seen = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            own = thing.to_local() if isinstance(thing, DTensor) else thing
            if own.device.type == device.type and not isinstance(own, nn.UninitializedParameter):
                storage = own.untyped_storage()
                seen[storage.data_ptr()] = storage.nbytes()
    options.live = sum(seen.values())
    options.peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0


def exchanges(world: World, device: torch.device, options: argparse.Namespace) -> None:
    """Prints the times of one block's sum by reduce-scatter, and in a fixed order."""
    elements = 12 * options.dim**2 // world.size * world.size
    part = torch.empty(elements // world.size, device=device)
    options.calls = WARM_UP + 2  # none is traced
    for name, slices in (("reduce-scatter", None), ("fixed order", world.size)):
        own = World(world.rank, world.size, slices)
        add_up = BlockSum(own, StepPlace(1, 1, True), "a block")
        gradients = torch.ones(elements, device=device)
        run = lambda: add_up(part, gradients, distributed.group.WORLD, None)  # noqa: E731, B023
        seconds = [timed(run, device, options)[0] for _ in range(30)][5:]
        if not world.rank:
            print(f"{name}, {elements * 4 / 2**20:.0f} MiB: {min(seconds) * 1e3:.2f} ms")


def main() -> None:
    """Measures all sides; rank 0 prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--dim", type=int, default=1024)
    options = parser.parse_args()
    distributed.init_process_group("gloo" if options.device == "cpu" else "cpu:gloo,cuda:nccl")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device(options.device)
    sides = {
        "copies": (None, of_learner), f"copies, slices={size}": (size, of_learner),
        "bare fully_shard": (None, of_bare_loop),
        "fsdp": (None, of_learner), f"fsdp, slices={size}": (size, of_learner),
    }  # fmt: skip
    if size == 1:
        sides = {name: side for name, side in sides.items() if not name.startswith("fsdp")}
    if not rank:
        parameters = sum(parameter.numel() for parameter in network(options).parameters())
        print(f"{parameters:,} parameters, {size} processes, torch {torch.__version__}")
        print("| side | ms an update | CPU s an update | live MiB | peak MiB | overlap |")
        print("| --- " * 6 + "|")
    for options.side, (slices, measure) in sides.items():
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        options.calls, options.overlap = 0, "-"
        times = measure(World(rank, size, slices), device, options)[WARM_UP:]
        clock, processor = (statistics.median(column) for column in zip(*times, strict=True))
        memory = f"{options.live / 2**20:.1f} | {options.peak / 2**20:.1f} | {options.overlap}"
        if not rank:
            row = f"| {options.side} | {clock * 1e3:.1f} | {processor:.3f} | {memory} |"
            print(row, flush=True)
        gc.collect()
    exchanges(World(rank, size), device, options)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

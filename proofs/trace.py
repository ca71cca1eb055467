"""One batch's walk through the code: which files an update passes, and in which order.

    python proofs/trace.py [--json] [--checkout FOLDER] [overrides of train.py ...]

A run of train.py, in this process, with every call in its main thread recorded. The calls are cut
into updates, from one training step to the next. Printed are the frames from `steps` to the task's
`train_step` and `valid_step` and to a writer's `write`, the walk of a median update (file by file,
in order of the first call, with what is called there), and how many files an update passes: between
log points, at log points, and at the ends of epochs. What other threads do, such as writing
checkpoints, is not counted.
"""

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parents[1]
STEP, EVALUATION_STEP, WRITE = "train_step", "valid_step", "write"
GRAPH = "show_graph"  # calls a step of evaluation too
LOOPS = ("steps", "fit")  # the generator that trains; older checkouts have `fit`


class Call(NamedTuple):
    """One call of a function of the package."""

    file: str
    function: str


@dataclass(frozen=True)
class Walks:
    """The measurements; numbers of files are (median, maximum) over the updates of that kind."""

    frames: list[str]
    frames_to_valid_step: list[str]
    frames_to_writer: list[str]
    walk: dict[str, list[str]]
    plain: tuple[int, int]
    log_point: tuple[int, int]
    epoch_end: tuple[int, int]


class Recorder:
    """Every call of a function below `package`, and the frames at the first call of each target.

    Targets are `train_step`, `valid_step` and a writer's `write`, within the loop.
    """

    def __init__(self, package: Path) -> None:
        self.calls: list[Call] = []
        self.frames: dict[str, list[Call]] = {}
        self._prefix = f"{package}/"
        self._is_training = False
        self._beside: FrameType | None = None  # draws the graph of the model, beside the loop

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if self._beside is None and event == "call" and code.co_name == GRAPH:
            self._beside = frame
        if self._beside is not None:
            self._beside = None if frame is self._beside and event == "return" else self._beside
            return
        if event != "call" or not code.co_filename.startswith(self._prefix):
            return
        call = self._named(frame)
        self._is_training |= code.co_name in LOOPS and call.file.startswith("learner/")
        if self._is_training:
            self.calls.append(call)
        target = code.co_name if code.co_name in (STEP, EVALUATION_STEP, WRITE) else None
        if target == WRITE and not call.function.endswith("Writer.write"):
            return
        if self._is_training and target and target not in self.frames:
            self.frames[target] = list(self._above(frame))[::-1]

    def _named(self, frame: FrameType) -> Call:
        name = frame.f_code.co_filename.removeprefix(self._prefix)
        return Call(name, frame.f_code.co_qualname)

    def _above(self, frame: FrameType | None) -> Iterator[Call]:
        """The frames from a training step up to the loop, of whatever package."""
        while frame is not None:
            yield self._named(frame)
            if frame.f_code.co_name in LOOPS:
                return
            frame = frame.f_back


def updates_of(calls: Iterable[Call]) -> list[list[Call]]:
    """The calls cut into updates: from one training step to the next."""
    updates: list[list[Call]] = []
    for call in calls:
        if call.function.endswith(f".{STEP}"):
            updates.append([])
        if updates:
            updates[-1].append(call)
    return updates


def _from_its_batch(calls: list[Call]) -> list[Call]:
    """The calls of an update in the order of a batch: fetching the next one stands for this one.

    Batches of small samples are gathered several at a time; most updates then only take the next.
    """
    fetched = next(n for n, call in enumerate(calls) if "._gathered" in call.function)
    return calls[fetched:] + calls[:fetched]


def measured(recorder: Recorder, log_every: int) -> Walks:
    """The walks of a recorded run."""
    kinds: dict[str, list[list[Call]]] = {"plain": [], "log_point": [], "epoch_end": []}
    for number, calls in enumerate(updates_of(recorder.calls), 1):
        is_epoch_end = any(call.function.endswith(f".{EVALUATION_STEP}") for call in calls)
        kind = "epoch_end" if is_epoch_end else "plain" if number % log_every else "log_point"
        kinds[kind].append(calls)
    sizes = {
        kind: sorted(len({call.file for call in calls}) for calls in walks)
        for kind, walks in kinds.items()
    }
    typical = sorted(kinds["plain"], key=lambda calls: len({call.file for call in calls}))
    walk: dict[str, list[str]] = {}
    for call in _from_its_batch(typical[len(typical) // 2]):
        functions = walk.setdefault(call.file, [])
        if call.function not in functions:
            functions.append(call.function)
    return Walks(
        frames=_described_frames(recorder.frames[STEP]),
        frames_to_valid_step=_described_frames(recorder.frames[EVALUATION_STEP]),
        frames_to_writer=_described_frames(recorder.frames[WRITE]),
        walk=walk,
        **{kind: (int(median(size)), size[-1]) for kind, size in sizes.items()},
    )


def _described_frames(calls: Iterable[Call]) -> list[str]:
    return [f"{call.file}: {call.function}" for call in calls]


def traced(checkout: Path, overrides: list[str]) -> Walks:
    """The walks of a run of the checkout's train.py; `log_every` may be among the overrides."""
    sys.path.insert(0, str(checkout / "src"))
    from andiron.shell.training import train  # of that checkout

    # torch: long while calls are recorded
    importlib.import_module("andiron.shell.training.experiment")
    values = dict(override.split("=", 1) for override in overrides if "=" in override)
    recorder = Recorder(checkout / "src" / "andiron")
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["train.py", f"hydra.run.dir={folder}/run", "render=plain", *overrides]
        code = _recorded(lambda: train.main(checkout / "conf"), recorder)
    if code:
        raise SystemExit(code)
    return measured(recorder, int(values.get("log_every", 20)))


def _recorded(run: Callable[[], int], recorder: Recorder) -> int:
    sys.setprofile(recorder)
    try:
        return run()
    finally:
        sys.setprofile(None)


def described(walks: Walks) -> str:
    """The walk as README shows it, and the numbers."""
    width = max(map(len, walks.walk))
    lines = []
    for target, frames in (
        (STEP, walks.frames),
        (EVALUATION_STEP, walks.frames_to_valid_step),
        (f"a writer's {WRITE}", walks.frames_to_writer),
    ):
        lines.append(f"{len(frames)} frames from steps to {target}:")
        lines += [f"  {name}" for name in frames]
    lines += ["", f"{len(walks.walk)} files in one update:"]
    lines += [f"  {file:<{width}}  {', '.join(names)}" for file, names in walks.walk.items()]
    for kind in ("plain", "log_point", "epoch_end"):
        middle, most = getattr(walks, kind)
        lines.append(f"{kind}: {middle} files (median), {most} at most")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="the numbers, for programs")
    parser.add_argument("--checkout", type=Path, default=HERE, help="whose train.py; this one's")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    walks = traced(arguments.checkout.resolve(), arguments.overrides or ["num_epochs=3"])
    print(json.dumps(asdict(walks)) if arguments.json else described(walks))
    return 0


if __name__ == "__main__":
    sys.exit(main())

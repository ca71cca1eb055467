"""Joins the processes of a run, and tells the others why one has failed."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from andiron import errors
from andiron.distributed import World
from andiron.shell.assembly import devices
from andiron.shell.config.schema import Train

SECONDS_TO_EXPLAIN = 5.0  # how long the survivors of a failure wait for its cause


class StoredReports:
    """The exit messages of processes in torchrun's store; `names` are by rank."""

    def __init__(self, store: Any, names: Sequence[str]):
        self._store, self._names = store, names

    def fail(self, rank: int, error: BaseException) -> None:
        """Leaves the cause for which this process ends."""
        with suppress(RuntimeError):  # torchrun is gone, and its store with it
            self._store.set(f"failed/{rank}", json.dumps(errors.reason(error)))

    def cause(self, rank: int) -> str:
        """Why an exchange failed: the processes that failed, or else those that do not answer.

        The store is asked in a thread: on a host that cannot be reached it never answers.
        """
        failed, silent = dict[int, str](), set(range(len(self._names))) - {rank}
        asking = threading.Thread(target=self._ask, args=(rank, failed, silent), daemon=True)
        asking.start()
        asking.join(2 * SECONDS_TO_EXPLAIN)
        if failed:
            return "; ".join(f"{self._names[other]} failed: {failed[other]}" for other in failed)
        gone = ", ".join(self._names[other] for other in sorted(silent))
        remedy = "it was killed, is stopped, or its host cannot be reached"
        return f"{gone} no longer answers: {remedy}" if gone else ""

    def _ask(self, rank: int, failed: dict[int, str], silent: set[int]) -> None:
        """Finds the processes that failed, and why, and takes off those that answer."""
        until = time.monotonic() + SECONDS_TO_EXPLAIN
        with suppress(RuntimeError):
            self._store.set(f"survived/{rank}", "")
            while silent and not failed and time.monotonic() < until:
                for other in sorted(silent):
                    if self._store.check([f"failed/{other}"]):
                        failed[other] = json.loads(self._store.get(f"failed/{other}"))
                    elif self._store.check([f"survived/{other}"]):
                        silent.discard(other)
                time.sleep(0.05)


def options_of(config: Train) -> dict[str, Any]:
    """The arguments of `joined` that follow from the options of a run, as plain values.

    Raises: ConfigError for more processes than GPUs on this host.
    """
    from torch import cuda

    on_gpu = config.device != "cpu" and devices.resolve("auto").type == "cuda"
    number, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", 1)), cuda.device_count()
    if on_gpu and number > gpus:
        raise errors.ConfigError(
            f"device={config.device}: torchrun started {number} processes on a host with {gpus} GPU"
            f"{'s' * (gpus > 1)}, and each takes one; give --nproc-per-node={gpus}, or device=cpu"
        )
    return {"on_gpu": on_gpu, "slices": config.slices, "timeout_seconds": config.peer_timeout}


@contextmanager
def joined(
    store: Any, rank: int, size: int, slices: int | None, *, on_gpu: bool, timeout_seconds: float
) -> Iterator[World]:
    """This process as one of the run's, which leaves the others at the end, however it ends."""
    # its functions default to the group that there is when it is imported: imported later, by a
    # package, it kept the group, whose threads aborted the process at its exit
    import torch.distributed.nn.functional  # noqa: F401
    from torch import distributed
    from torch.distributed.distributed_c10d import PrefixStore

    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=PrefixStore("group", store),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout_seconds),
    )
    try:
        names: list[Any] = [None] * size
        me = f"rank {rank} (host {socket.gethostname()}, process {os.getpid()})"
        distributed.all_gather_object(names, me)
        world = World(rank, size, slices, StoredReports(PrefixStore("reports", store), names))
        try:
            yield world
        except BaseException as error:
            world.fail(error)
            raise
    finally:
        distributed.destroy_process_group()

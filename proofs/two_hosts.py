"""Two hosts on one machine: network namespaces with an address and a host name of their own.

`python -m proofs.two_hosts torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1:29500
--nproc-per-node=2 train.py ...` runs the command on both; their only link is a pair of virtual
Ethernet devices. It takes Linux and root.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HOSTS = {"node1": "10.77.31.1", "node2": "10.77.31.2"}
# `ip netns exec` mounts what is below this folder over /etc
SETTINGS = Path("/etc/netns")


class NotPermittedError(Exception):
    """This machine makes no network namespaces, for the reason in the message."""


def on(host: str, command: Sequence[str], *, of: int | None = None) -> list[str]:
    """The command line that runs `command` on a host; `of` is the process that made the hosts."""
    inside = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh", *command]
    return ["ip", "netns", "exec", _namespace(host, of), *inside]


@contextlib.contextmanager
def linked() -> Iterator[None]:
    """Both hosts of this process, and the link between them, while it lasts.

    Raises: NotPermittedError.
    """
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise NotPermittedError("network namespaces take Linux and root")
    for tool in ("ip", "unshare", "hostname"):
        if shutil.which(tool) is None:
            raise NotPermittedError(f"{tool} is not installed")
    try:
        _make()
        yield
    finally:
        for host in HOSTS:  # a device of the link goes with its namespace
            subprocess.run(["ip", "netns", "del", _namespace(host)], capture_output=True)
            shutil.rmtree(SETTINGS / _namespace(host), ignore_errors=True)


def cut() -> None:
    """Takes the link down, as a pulled cable does."""
    _called("ip", "-n", _namespace("node1"), "link", "set", "link0", "down")


def _make() -> None:
    known = "\n".join(["127.0.0.1 localhost", *(f"{HOSTS[host]} {host}" for host in HOSTS)])
    for host in HOSTS:
        _called("ip", "netns", "add", _namespace(host))
        folder = SETTINGS / _namespace(host)
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(f"{known}\n")
        (folder / "nsswitch.conf").write_text("hosts: files\n")  # no name server is reached
    ends = [("link0", "netns", _namespace(host)) for host in HOSTS]
    _called("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
    for host, address in HOSTS.items():
        inside = ("ip", "-n", _namespace(host))
        _called(*inside, "address", "add", f"{address}/24", "dev", "link0")
        for device in ("lo", "link0"):
            _called(*inside, "link", "set", device, "up")


def _called(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotPermittedError(f"{' '.join(command)}: {done.stderr.strip()}")


def _namespace(host: str, of: int | None = None) -> str:
    return f"andiron-{of or os.getpid()}-{host}"


if __name__ == "__main__":
    with linked():
        several = [subprocess.Popen(on(host, sys.argv[1:])) for host in HOSTS]
        sys.exit(max(process.wait() for process in several))

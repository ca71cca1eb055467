"""A mirror in an object store: killed 40 times behind a proxy that cuts, refuses and lies."""

import hashlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from bad_proxy import BadProxy
from mirrored_saver import state
from train_processes import Training
from waiting import until

from andiron.checkpoint import Cadence, KeepLast
from andiron.checkpoint.on_disk import checkpoint_files
from andiron.data import DataLoaderBuilder, digits
from andiron.learner import LearnerBuilder
from andiron.models import MLP
from andiron.optim import Optimizer
from andiron.run_folder import RunFolder
from andiron.shell.run import status
from andiron.tasks import Classifier
from andiron_lab import mirror
from andiron_lab.ask import bit_comparison
from andiron_lab.mirror.remote_run import RemoteRun
from proofs.rank_kills import Run

s3fs = pytest.importorskip("s3fs")
boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto.server")
SAVER = Path(__file__).with_name("mirrored_saver.py")
SECRET = "wJalrXUtnFEMI"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7", "AWS_SECRET_ACCESS_KEY": SECRET}
RUN = (
    "model.hidden=[32]", "batch_size=20", "num_epochs=40", "checkpoint.every=7", "device=cpu",
    "render=plain",
)  # fmt: skip
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("preloaded_processes"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of botocore
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of aiohttp's connections
]
KILLS = int(os.environ.get("ANDIRON_KILLS", "5"))


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The port of moto's server, with a bucket `runs`."""
    for name, text in {**KEYS, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, text)
    code = (
        "from moto.moto_server.threaded_moto_server import ThreadedMotoServer as Server; import "
        "time; server = Server('127.0.0.1', 0, verbose=False); server.start(); "
        "print(server.get_host_and_port()[1], flush=True); time.sleep(1e6)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        port = int(process.stdout.readline())
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")
        client.create_bucket(Bucket="runs")
        yield port
        process.kill()


@pytest.fixture
def proxy(server, monkeypatch):
    """The bad proxy, at which this process and those that it starts find the server."""
    proxy = BadProxy(server, seed=1, share=0.15)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    s3fs.S3FileSystem.clear_instance_cache()  # of a test before, with its port
    yield proxy
    proxy.close()


def faults_there(address, tmp_path):
    """The whole checkpoints there, and files that are missing or differ from the manifest."""
    remote, faults, whole = RemoteRun(address, "address"), [], []
    for name in remote.steps():
        if not (content := remote.manifest(name)):
            continue
        whole.append(name)
        for file, entry in json.loads(content)["files"].items():
            local = tmp_path / "read" / file
            try:
                remote.download(f"{name}/{file}", local)
            except FileNotFoundError:
                faults.append(f"{name}/{file} is missing")
                continue
            if hashlib.sha256(local.read_bytes()).hexdigest() != entry["sha256"]:
                faults.append(f"{name}/{file} is another")
    return whole, faults


def test_kills_behind_a_bad_proxy_leave_whole_checkpoints(proxy, server, tmp_path):
    own = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    chance, kept, begun = random.Random(2), 0, 0
    for number in range(KILLS):
        folder, address = tmp_path / f"run-{number // 4}", f"s3://runs/mine-{number // 4}"
        said = tmp_path / f"said-{number}"
        with said.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, SAVER, folder, address], env=own, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        time.sleep(chance.uniform(2.5, 6))
        assert process.poll() is None, said.read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        share, proxy.share = proxy.share, 0.0
        whole, faults = faults_there(address, tmp_path)
        steps = RemoteRun(address, "address").steps()
        assert faults == [], number
        proxy.share = share
        kept, begun = kept + bool(whole), begun + len(steps) - len(whole)
        if whole:
            back = mirror.fetched(address, tmp_path / f"back-{number}")
            saved = checkpoint_files.load(back / "checkpoints" / whole[-1])
            expected = state(saved.state["updates"])
            for name, tensor in expected.model.items():
                assert tensor.equal(saved.model[name])
            shutil.rmtree(back)
    print(f"{KILLS} kills: {kept} with a whole checkpoint there, {begun} begun; {proxy.faults}")
    assert kept >= KILLS // 2 and sum(proxy.faults.values()) > KILLS


def test_a_killed_run_ends_on_other_machines_with_the_same_bits(proxy, tmp_path):
    with Training(tmp_path, *RUN, "hydra.run.dir=whole") as process:
        assert process.end() == 0, process.errors
    options, mirrored = RUN, "checkpoint.mirror=s3://runs/mine"
    for number in range(5):
        into = f"hydra.run.dir=machine-{number}"
        with Training(tmp_path, *options, mirrored, into) as process:
            if number == 4:
                assert process.end() == 0, process.errors
                break
            folder = tmp_path / f"machine-{number}"
            process.until(partial(_is_mirrored, folder, 150 * (number + 1)))
            os.killpg(process.process.pid, signal.SIGKILL)
            process.process.wait()
        shutil.rmtree(folder)
        options = ("resume=s3://runs/mine",)
    last = tmp_path / "machine-4"
    differences = bit_comparison.compare(tmp_path / "whole", last)
    others = [str(entry) for entry in differences if not entry.where.startswith("tensorboard")]
    assert others == []
    for path in [*last.rglob("*"), *tmp_path.glob("said-*")]:
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def _is_mirrored(folder, updates):
    """Whether a checkpoint of more updates is there."""
    return status.read(RunFolder(folder)).get("mirrored", {}).get("updates", 0) > updates


def test_the_weights_at_an_address_are_fetched_once_for_all_ranks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    far, short = f"file://{tmp_path}/far", ("num_epochs=1", "device=cpu", "model.hidden=[8]")
    with Training(tmp_path, *short, f"checkpoint.mirror={far}", "hydra.run.dir=run") as process:
        assert process.end() == 0, process.errors
    several = Run(tmp_path / "several", "fetched", (*short, f"start_from={far}"))
    assert several.started("--max-restarts=0").wait(300) == 0
    assert len([*tmp_path.glob("outputs/*/*")]) == 1
    assert "weights from" in (tmp_path / "several.txt").read_text()


def calls_of_steps(folder, address=None, during=lambda updates: None):
    """How often a run's own thread calls a function, in each update but some.

    A save, every 5 updates, may wait for the one before; the end of an epoch, every 11, logs times.
    `during` is called between two updates.
    """
    splits, calls, number, before = digits(valid=0.1, split_seed=0), [], 0, 0

    def count(frame, event, argument):
        nonlocal number
        number += event in ("call", "c_call")

    train = DataLoaderBuilder(splits.batcher).batch_size(128).shuffle(1).build(splits.train)
    valid = DataLoaderBuilder(splits.batcher).batch_size(128).build(splits.valid)
    model = Classifier(MLP(splits.input_shape, splits.num_classes, hidden=[16]))
    builder = LearnerBuilder(folder, num_epochs=9).renderer(None)
    builder = builder.with_file_checkpointer(KeepLast(2), Cadence(updates=5))
    with mirror.mirrored(folder, address) if address else nullcontext(), builder.build(
        model, Optimizer(torch.optim.Adam, model), 1e-3
    ) as learner:
        for _ in learner.steps(train, valid):
            sys.setprofile(None)
            after = learner.updates
            if after > before and before % 5 and after % 5 and after % 11:
                calls.append(number)
            before = after
            during(before)
            number = 0
            sys.setprofile(count)
        sys.setprofile(None)
    return calls


def test_a_store_that_is_away_changes_no_call_of_a_step_and_is_caught_up(proxy, tmp_path, caplog):
    alone, run, proxy.share = calls_of_steps(tmp_path / "alone"), tmp_path / "run", 0

    def entry():
        return status.read(RunFolder(run)).get("mirrored", {})

    def during(updates):
        if updates == 20:
            until(lambda: entry().get("updates"))
            proxy.is_away = True
        elif updates == 40:
            until(lambda: entry().get("error"))
        elif updates == 80:
            proxy.is_away = False

    away = calls_of_steps(run, "s3://runs/mine", during)
    assert away == alone
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1 and "training continues" in warnings[0]
    assert entry() == {"updates": 99, "behind": 0, "error": None}

"""Runs on masks: the bits of a plain loop, killed and resumed, in several processes, exported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import onnxruntime
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.nn import functional

import andiron
from andiron import randomness
from andiron.data import DataLoader
from andiron.wings.trained import evaluating
from andiron_lab.masks import UNet

pytestmark = pytest.mark.usefixtures("preloaded_processes")
ROOT = Path(__file__).resolve().parents[3]
SMALL = [
    "data=image_masks", "model.width=4", "model.depth=2", "num_epochs=3", "device=cpu",
    "render=plain",
]  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Sixty pictures of discs of two classes on noise; some have none, or ignored pixels."""
    root = tmp_path_factory.mktemp("masks") / "pics"
    draws = numpy.random.default_rng(0)
    for kind in ("images", "masks"):
        (root / kind).mkdir(parents=True)
    rows, columns = numpy.mgrid[:32, :32]
    for number in range(60):
        mask = numpy.zeros((32, 32), numpy.uint8)
        for shape in (1, 2) if number % 6 else ():
            row, column = draws.integers(6, 26, 2)
            mask[numpy.hypot(rows - row, columns - column) < draws.integers(4, 9)] = shape
        pixels = draws.normal(110, 30, (32, 32, 3))
        pixels[mask == 1] += 60, 0, -30
        pixels[mask == 2] += -30, 50, 40
        mask[:2] = 255 if number % 5 == 0 else mask[:2]
        Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(root / f"images/{number}.png")
        Image.fromarray(mask).save(root / f"masks/{number}.png")
    return root


def command(pictures, folder, *more):
    own = [f"data.path={pictures}", f"hydra.run.dir={folder}", *SMALL, *more]
    return [sys.executable, str(ROOT / "train.py"), *own]


def train(pictures, folder, *more, processes=1):
    arguments = command(pictures, folder, *more)
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        arguments = [sys.executable, *launcher, *arguments[1:]]
    subprocess.run(arguments, check=True, cwd=pictures.parent)
    return folder


def test_a_run_has_the_bits_of_a_plain_loop(pictures, tmp_path):
    run = andiron.load(train(pictures, tmp_path / "run"))
    randomness.start_stream(42, "init")
    network = UNet((3, 32, 32), 3, width=4, depth=2)
    optimizer = torch.optim.Adam(network.parameters(), lr=run.config.lr, fused=True)
    loader = DataLoader(run.data.train, run.data.batcher, batch_size=8, shuffle_seed=42)
    for epoch in range(3):
        for images, masks in loader.epoch(epoch):
            rows = network(images).movedim(1, -1).flatten(0, -2)
            summed = functional.cross_entropy(rows, masks.long().flatten(), reduction="sum")
            summed.div((masks != -100).sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
    weights = run.model.network.state_dict()
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, weights[name]), name


def test_a_killed_run_resumes_with_the_same_bits(pictures, tmp_path):
    options = ["augmentation=[flip,rotate]", "checkpoint.every=1"]
    whole = train(pictures, tmp_path / "whole", *options)
    killed = tmp_path / "killed"
    process = subprocess.Popen(command(pictures, killed, *options), cwd=tmp_path)
    while process.poll() is None and len([*killed.glob("checkpoints/step-*")]) < 2:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resume = [sys.executable, str(ROOT / "train.py"), f"resume={killed}"]
    subprocess.run(resume, check=True, cwd=tmp_path)
    weights = [load_file(folder / "model.safetensors") for folder in (whole, killed)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_iou_and_dice_are_the_same_in_one_and_two_processes(pictures, tmp_path):
    measured = []
    for processes in (1, 2):
        folder = train(pictures, tmp_path / str(processes), "slices=4", processes=processes)
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        measured.append([
            {name: value for name, value in line.items() if "iou" in name or "dice" in name}
            for line in lines
        ])  # fmt: skip
    assert any(measured[0]) and measured[0] == measured[1]


def test_three_processes_count_the_pixels_that_one_counts(pictures, tmp_path):
    run = andiron.load(train(pictures, tmp_path / "run", processes=3))
    evaluation = evaluating.evaluate(run, run.data, "test")
    logged = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    (tested,) = (line for line in logged if line["split"] == "test")
    scores = {name: tested[name] for name in tested if "iou" in name or "dice" in name}
    assert len(scores) == 5
    assert scores == {name: evaluation.values[name] for name in scores}


def test_the_exported_network_agrees_and_predicted_masks_are_written(pictures, tmp_path):
    run = train(pictures, tmp_path / "run")
    andiron_command = [sys.executable, str(ROOT / "scripts" / "andiron.py")]
    exported = tmp_path / "exported"
    arguments = ["export", str(run), "--format", "onnx", "--output", str(exported)]
    subprocess.run([*andiron_command, *arguments], check=True)
    (program,) = exported.rglob("*.onnx")
    loaded = andiron.load(run)
    images = torch.randn(3, 3, 32, 32)
    session = onnxruntime.InferenceSession(str(program), providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {"inputs": images.numpy()})
    with torch.inference_mode():
        expected = loaded.model(images)
    torch.testing.assert_close(torch.from_numpy(outputs), expected, rtol=1e-4, atol=1e-4)
    masks = tmp_path / "out"
    arguments = ["predict", str(run), str(pictures / "images"), "--masks", str(masks)]
    subprocess.run([*andiron_command, *arguments], check=True)
    prediction, *_ = loaded.predict(pictures / "images" / "7.png")
    assert numpy.array_equal(numpy.asarray(Image.open(masks / "7.png")), prediction.mask)
    assert len([*masks.iterdir()]) == 60
    again = subprocess.run([*andiron_command, *arguments], capture_output=True, text=True)
    assert again.returncode and "png: is there already" in again.stderr

"""The battery for a GPU, run in small on the CPU: every section comes to its row."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[2]


def test_every_section_of_the_battery_runs_on_a_cpu():
    command = [sys.executable, "benchmarks/gpu.py", "--device", "cpu", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)

    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line[:1] == "|"]
    networks = ("MLP", "convnet", "ResNet-8", "ViT", "GPT")
    assert rows[2:] == [
        "tests marked gpu", "MLP, stopped and resumed", "cifar10_resnet, 1 epochs",
        "step held up by 1 MB", "batch copied ahead, or by the step",
        "MLP, fp32, CUDA graph", "MLP, fp32, graph=true", "MLP, fp32",
        "convnet, fp32, CUDA graph", "convnet, fp32, graph=true", "convnet, fp32",
        "ResNet-8, fp32, graph=true", "ResNet-8, fp32", "ViT, bf16, graph=true", "ViT, bf16",
        "GPT, bf16, graph=true", "GPT, bf16",
        *[f"{name}, {kind}" for name in networks for kind in ("fp32", "bf16")],
        "MLP, bf16, compiled",
    ]  # fmt: skip


def run(folder, sections):
    """The exit code and the log of the battery with these sections only."""
    options = ["--device", "cpu", "--tiny", "--out", str(folder)]
    command = [sys.executable, "-c", PROGRAM.format(sections), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, (folder / "log.txt").read_text()


def test_a_failed_section_shows_in_the_table_the_log_and_the_exit_code(tmp_path):
    code, log = run(tmp_path, '{"speed": (failing, 1), "copying": gpu.SECTIONS["copying"]}')

    table = (tmp_path / "table.md").read_text()
    assert code == 1 and "in failing" in log
    assert "ValueError: no such luck" in table
    assert "| batch copied ahead" in table  # the section after it


def test_a_battery_that_hangs_ends_with_a_traceback(tmp_path):
    code, log = run(tmp_path, '{"speed": (hanging, 1)}')

    assert code == 1 and "Timeout (0:00:02)!" in log


PROGRAM = """
import sys, time
sys.path.insert(0, "benchmarks")
import gpu

def failing(place):
    raise ValueError("no such luck")
    yield

def hanging(place):
    time.sleep(1000)
    yield

gpu.SECTIONS = {}
gpu.LAST_SECOND = 400 if "copying" in gpu.SECTIONS else 2
sys.argv[0] = "gpu.py"
sys.exit(gpu.main())
"""

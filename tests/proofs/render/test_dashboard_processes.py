"""The dashboard of a real run in a real terminal: its keys, a resize, a suspension, its end."""

import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from in_process import called
from tmux import NEEDED, Tmux

from andiron.shell.training import train

pytestmark = pytest.mark.usefixtures("preloaded_processes")

ROOT = Path(__file__).resolve().parents[3]
PYTHON = sys.executable
LINE = "─" * 20


def lines_of(screen):
    return [line.rstrip() for line in screen.splitlines()]


@NEEDED
@pytest.mark.slow
def test_a_run_is_shown_and_steered_on_a_real_terminal_and_restores_it(tmp_path):
    # of long epochs: each adds a line to the log, and what a key did should be seen there
    options = "num_epochs=100000 batch_size=1 log_every=100 hydra.run.dir=run"
    train = f"{PYTHON} {ROOT}/train.py {options}"
    with Tmux(tmp_path) as terminal:
        terminal.type(f"stty -a > before; {train}")
        screen = lines_of(terminal.until("samples/s"))
        assert screen[0].endswith("/run  running") and "update" in screen[2]
        for title in ("metrics", "plot", "groups", "machine", "log"):
            assert any(f"─ {title} ─" in line for line in screen), title
        assert screen[-1] == "q stop  ? help  s save  v validate  ←→ value  ↑↓ range"

        terminal.press("s")
        terminal.until("save on request")
        terminal.press("v")
        terminal.until("validate on request")
        terminal.press("Right")
        terminal.until(" accuracy  ━ train")
        terminal.press("Up")
        terminal.until("  last 50%")
        terminal.press("Left", "Down")
        terminal.until(lambda shown: " loss  ━ train" in shown and "  all updates" in shown)
        terminal("resize-window", "-x", "40", "-y", "12")
        # drawn anew: tmux cuts what was drawn before
        small = terminal.until(
            lambda shown: any(line.split()[:2] == ["loss", "train"] for line in lines_of(shown))
        )
        assert len(lines_of(small)) == 12
        terminal.press("?")
        terminal.until("validate now; logged only")
        terminal.press("?")
        terminal("resize-window", "-x", "120", "-y", "32")
        terminal.until(lambda shown: "run  running" in shown and LINE * 4 in shown)

        terminal.press("C-z")
        terminal.until("Stopped")
        terminal.type("stty -a | diff before - && echo the same")
        terminal.until(lambda shown: "the same" in lines_of(shown))
        terminal.type("fg")
        terminal.until(lambda shown: "run  running" in shown and "─ plot ─" in shown)
        terminal.press("q")
        ended = terminal.until("interrupted; resume=")
        assert "─ plot ─" not in ended and "Traceback" not in ended
        terminal.type("clear; stty -a | diff before - && echo given back")
        terminal.until(lambda shown: "given back" in lines_of(shown))

    status = (tmp_path / "run" / "status.json").read_text()
    assert '"interrupted"' in status and '"key q"' in status


@NEEDED
@pytest.mark.slow
def test_watch_shows_a_run_in_another_terminal_and_changes_nothing(tmp_path, finished_digits):
    before = {path: path.stat().st_mtime_ns for path in finished_digits.rglob("*")}
    with Tmux(tmp_path, 40, 12) as terminal:
        terminal.type(f"{PYTHON} {ROOT}/scripts/andiron.py watch {finished_digits}")
        screen = lines_of(terminal.until("q leave"))
        assert any(line.split()[:2] == ["loss", "valid"] for line in screen)
        assert screen[0].endswith("  done") and screen[2].startswith(" 100%  epoch")
        assert screen[-1].startswith("q leave  ? help")
        terminal.press("q")
        terminal.until(lambda shown: "q leave" not in shown)

    assert {path: path.stat().st_mtime_ns for path in finished_digits.rglob("*")} == before


SLOW = """import time
from andiron.metrics import Loss
class Slow(Loss):
    name = "slow"

    def __call__(self, item):
        time.sleep(0.05)
        return super().__call__(item)
"""


@NEEDED
@pytest.mark.slow
def test_a_detached_run_continues_and_resumes_exactly_if_tmux_is_killed(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)  # of few updates, to be repeated
    options = "num_epochs=100000 hydra.run.dir=run '+metrics.slow={_target_: slow.Slow}'"
    with Tmux(tmp_path) as outer:
        inner = f"tmux -L {outer.name}-inner -f /dev/null"
        outer.type(f"export PYTHONPATH={tmp_path}; unset TMUX")
        outer.type(f"{inner} new-session -s run")
        outer.type(f"{PYTHON} {ROOT}/train.py {options}")
        outer.until("samples/s")
        outer.press("C-b", "d")
        outer.until("[detached")
        log = tmp_path / "run" / "metrics.jsonl"
        size = log.stat().st_size
        outer.until(lambda shown: log.stat().st_size > size)
        outer.type(f"clear; {inner} attach")
        outer.until(lambda shown: "run  running" in shown and "─ plot ─" in shown)
        outer.press("C-b", "d")
        outer.until("[detached")
        outer.type(f"{inner} kill-server; clear")
        status = tmp_path / "run" / "status.json"
        outer.until(lambda shown: '"interrupted"' in status.read_text())
    assert '"SIGHUP"' in status.read_text()

    saved = (tmp_path / "run" / "checkpoints").glob("step-*")
    updates = max(int(path.name.removeprefix("step-")) for path in saved) + 3
    length = ("num_epochs=null", f"num_updates={updates}")
    for run in (["resume=run", "trust=[slow]"], ["hydra.run.dir=whole"]):
        ended = called(train.main, *run, *length, "render=plain", cwd=tmp_path)
        assert ended.code == 0, ended.errors
    weights = [safetensors.torch.load_file(tmp_path / name / "model.safetensors")
               for name in ("run", "whole")]  # fmt: skip
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())

"""`docs/observers.md`, done: its loop, its observers on the command line, its message sent."""

import http.server
import json
import os
import re
import threading
from pathlib import Path

import pytest
import torch
from in_process import called

from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.optim import Optimizer
from andiron.run_folder import RunFolder
from andiron.shell.run import status
from andiron.shell.training import train
from andiron.tasks import Classifier

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "observers.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
FILES = {text.split()[1]: text for _, text in BLOCKS if text.startswith("# ")}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the page's files."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def chat():
    """The webhook of a chat: its address, and the messages that came."""
    messages = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            messages.append(json.loads(body)["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", messages
    server.shutdown()
    server.server_close()


def test_the_loop_of_the_page_runs(here):
    for language, text in BLOCKS:
        if language == "python" and not text.startswith("# "):
            exec(compile(text, "observers.md", "exec"), {})


def arguments(url):
    """The page's command, without what sets the shell."""
    (command,) = (text for language, text in BLOCKS if language == "bash")
    words = command.replace("\\\n", " ").replace('"$WEBHOOK"', url).split()
    return words[words.index("--config-dir") :]


def test_the_command_of_the_page_ends_at_the_target_freezes_and_sends(here, chat):
    url, messages = chat
    ended = called(train.main, *arguments(url), "render=plain")
    assert ended.code == 0, ended.errors
    facts = status.read(RunFolder(here / "observed"))
    assert facts["status"] == "done" and re.fullmatch(r"accuracy is 0\.9\d+", facts["reason"])
    shown = BLOCKS[-1][1]
    assert re.fullmatch(r"ends after update \d+: accuracy is 0\.9\d+\n", shown)
    assert f": {facts['reason']}\n" in ended.output + ended.errors

    summary = json.loads((here / "observed" / "summary.json").read_text())
    assert messages and "accuracy" in messages[-1]
    assert {row["split"] for row in summary["metrics"]} == {"train", "valid", "test"}

    again = called(train.main, *arguments(url), "restart=requeued")
    assert again.code == 0 and "trains on" in again.output + again.errors
    longer = called(
        train.main, "--config-dir", "conf", "resume=observed", "observers.target.target=2.0",
        "num_epochs=5", "resume_allow=[observers]",
    )  # fmt: skip
    assert longer.code == 0, longer.errors
    assert status.read(RunFolder(here / "observed"))["reason"] is None


def test_observers_without_their_folder_are_asked_for_it(here):
    ended = called(train.main, "observers=target")
    assert ended.problems == [
        "observers=target: should be an object, as the defaults of a file choose it: "
        "`override /observers: target`; files of your own need --config-dir"
    ]


def test_an_observer_of_no_kind_and_one_that_fails(here):
    small = "num_epochs=1", "data=partial", "data.fraction=0.1", "hydra.run.dir=run"
    wrong = called(train.main, *small, "+observers={mine: {_target_: fractions.Fraction}}")
    assert wrong.code == 2 and "gives an object of Fraction; observers.mine takes" in wrong.errors
    (here / "fails.py").write_text(
        "class Fails:\n    def after_update(self, learner, step):\n        raise OSError('mine')\n"
    )
    with pytest.raises(OSError, match="mine"):
        called(train.main, *small, "+observers={mine: {_target_: fails.Fails}}")
    assert not os.path.exists("run")


def test_max_time_ends_a_run_that_can_be_trained_on(here):
    small = "num_epochs=3", "data=partial", "data.fraction=0.1", "hydra.run.dir=run"
    assert called(train.main, *small, "max_time=0.001s").code == 0
    facts = status.read(RunFolder(here / "run"))
    assert (facts["status"], facts["reason"]) == ("done", "max_time=0.001s is over")
    summary = json.loads((here / "run" / "summary.json").read_text())
    assert summary["updates"] == 1 and {row["split"] for row in summary["metrics"]} >= {"test"}

    requeued = called(train.main, *small, "max_time=0.001s", "restart=requeued")
    assert requeued.code == 0 and "trains on" in requeued.output + requeued.errors
    assert called(train.main, "resume=run").code == 0
    assert json.loads((here / "run" / "summary.json").read_text())["updates"] == 2
    assert called(train.main, "resume=run", "max_time=null").code == 0
    assert status.read(RunFolder(here / "run"))["reason"] is None
    refused = called(train.main, *small, "max_time=8")
    assert "max_time=8: should be a time with its unit, such as 90s, 30min" in refused.errors


def test_the_learner_of_an_observer_has_what_the_table_names():
    table = PAGE.partition("the `learner` of an")[2]
    rows = re.findall(r"^\| ((?:`[\w.()]+`,? ?)+) \|", table, flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)", row)]
    model = Classifier(torch.nn.Linear(4, 2))
    builder = LearnerBuilder(None, num_epochs=1).metric_valid_numeric(Loss())
    with builder.build(model, Optimizer(torch.optim.SGD, model), 0.1) as learner:
        assert {"model", "rates", "end", "world"} <= {*names}
        assert [name for name in names if not hasattr(learner, name)] == []

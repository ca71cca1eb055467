"""Reading a run runs nothing: from training to export, nothing is ever unpickled."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFUSING = f"""
import pickle, sys

met = []

def refuse(*arguments, **options):
    met.append("unpickled")
    raise AssertionError("something is unpickled")

class Refusing(pickle.Unpickler):
    def __init__(self, *arguments, **options):
        refuse()

pickle.loads = pickle.load = pickle._loads = pickle._load = refuse
pickle.Unpickler = pickle._Unpickler = Refusing
sys.path.insert(0, {str(ROOT / "src")!r})
import torch
torch.load = refuse
"""
STORY = """
import json
from pathlib import Path

from andiron import serialization
from andiron.shell.assembly import components, configured_learner
from andiron.shell.config.schema import Train
from andiron.interrupter import Interrupter
from andiron.shell.training import train, train_run

def train_py(*arguments):
    sys.argv = ["train.py", *arguments]
    return train.main()

def stop_rule(split, updates, batch):
    return "after 30 updates" if updates == 30 else None

whole = train_run.train
train_run.train = lambda *arguments: whole(*arguments[:3], Interrupter(stop_rule=stop_rule))
options = "num_epochs=2", "averages=ema", "scheduler=plateau", "render=plain"
assert train_py("hydra.run.dir=run", *options) == 130
train_run.train = whole
assert train_py("resume=run") == 0

run = Path("run").absolute()
config = Train.load(run / "config.json")
built = components.build(config)
learner = configured_learner.learner(config, built, run)
for name, tensor in serialization.load_tensors(run / "model.safetensors").items():
    learner.model.state_dict()[name].copy_(tensor)
learner.evaluator.validate({"test": built.test})
found = learner.metric_log.latest["test"]
summary = json.loads((run / "summary.json").read_text())
rows = {row["metric"]: row["last"] for row in summary["metrics"] if row["split"] == "test"}
assert found == rows, (found, rows)

recorders = {
    "m.safetensors": serialization.Recorder(),
    "m.json": serialization.Recorder(format="json"),
    "m.mpk.gz": serialization.CompactRecorder(),
}
for name, recorder in recorders.items():
    serialization.save_file(learner.model, run / name, recorder)
    serialization.load_file(learner.model, run / name)
assert not met
print("read without unpickling")
"""


def run(script, folder):
    command = [sys.executable, "-c", script]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env=alone
    )


def test_training_resuming_measuring_and_exporting_unpickle_nothing(tmp_path):
    done = run(REFUSING + STORY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "read without unpickling"


READINGS = """
for read in (
    lambda: torch.load("x.pt"), lambda: pickle.loads(b"N."), lambda: pickle.Unpickler(None)
):
    try:
        read()
    except AssertionError as error:
        print(error)
"""


def test_the_guard_would_see_it(tmp_path):
    done = run(REFUSING + READINGS, tmp_path)
    assert (done.stdout, done.stderr) == ("something is unpickled\n" * 3, "")


def test_no_module_names_pickle_but_the_importer_of_strangers_files():
    """The one is that of import-state-dict and start_from, with weights_only=True;
    torchvision's own weights are read by torchvision.
    """
    naming = [
        path.relative_to(ROOT / "src" / "andiron").as_posix()
        for path in sorted((ROOT / "src").rglob("*.py"))
        if any(
            word in path.read_text()
            for word in ("torch.load(path", "pickle.load", "np.load(", "allow_pickle")
        )
    ]
    assert naming == ["serialization/weight_files.py"]
    (call,) = [
        line
        for line in (ROOT / "src/andiron/serialization/weight_files.py").read_text().splitlines()
        if "torch.load(" in line
    ]
    assert "weights_only=True" in call

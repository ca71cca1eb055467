"""Run folders with a file of every kind, made without training; options of a small text run."""

import json

from andiron.disk import checksums
from andiron.run_folder import RunFolder
from andiron.shell.run import run_record

TEXT = (
    "data=text", "data.path=text.txt", "data.level=characters", "data.context_length=4",
    "task=language_model", "task.sample_length=1", "metrics=language", "model=gpt",
    "model.layers=1", "model.dim=8", "model.heads=1",
)  # fmt: skip
EVENTS = "tensorboard/train/events.out.tfevents.1.host.2.0"


def make_run(path):
    """The files of a run, checkpoints and events among them; its identity."""
    folder = RunFolder(path)
    step = folder.checkpoints / "step-1"
    for inner in (step, folder.tensorboard / "train"):
        inner.mkdir(parents=True)
    identity = run_record.begin(folder).run
    recorded = (folder.config, folder.weights("model-a"), folder.hydra / "config.yaml")
    run_record.write(folder, dict.fromkeys(recorded, b"old"))
    for own in (folder.status, folder.log, folder.metrics):
        own.write_text("old")
    (path / EVENTS).write_text("old")
    run_record.list_written(folder, ["metrics.jsonl", EVENTS])
    (step / "state.json").write_text("{}")
    plain = {"name": step.name, "files": {"state.json": {}}, "run": identity}
    (step / "manifest.json").write_text(json.dumps(checksums.signed(plain)))
    return identity


def content(folder):
    """The bytes of every file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

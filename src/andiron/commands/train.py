"""Training as a command: compose and check, claim a folder, build, fit."""

import gc
import sys
from pathlib import Path

from andiron.commands import command_line
from andiron.config.schema import Train
from andiron.run import folder


def train(config: Train, run_dir: Path, hydra_record: dict[str, str]) -> None:
    """One run in its own folder, from the configuration to the trained model."""
    with folder.claimed(run_dir, overwrite=config.overwrite):
        config.save(run_dir / "config.json")
        folder.write_all(run_dir / ".hydra", hydra_record)
        gc.disable()  # of the many objects that imports make none is garbage: looking for some takes 0.1 s here
        from andiron import experiment  # imports torch: a second or two, which a mistake above need not wait for

        gc.enable()
        experiment.build(config, run_dir).run()


def main(conf_dir: Path | None = None) -> int:
    """What `python train.py` does; the exit code."""
    return command_line.main(train, conf_dir, sys.argv[1:])

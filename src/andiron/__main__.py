"""`andiron <command>`, also as `python -m andiron`; without the name of a command it trains."""

import importlib
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

COMMANDS = {  # module:function, each imported only when it is asked for
    "train": "andiron.shell.training.train:script",
    "try": "andiron.wings.sweep.ideas:main",
    "watch": "andiron.wings.screen.watch:main",
    "check": "andiron.wings.runs.check:main",
    "plan": "andiron.wings.runs.plan:main",
    "evaluate": "andiron.wings.trained.evaluate:main",
    "find-lr": "andiron.wings.sweep.find_lr:main",
    "predict": "andiron.wings.trained.predict:main",
    "replay": "andiron.wings.ask.replay:main",
    "generate": "andiron.wings.trained.generate:main",
    "export": "andiron.wings.trained.exports.export:main",
    "recheck": "andiron.wings.ask.recheck:main",
    "bisect": "andiron.wings.ask.bisect:main",
    "samples": "andiron.wings.ask.samples:main",
    "rerun": "andiron.wings.runs.rerun:main",
    "accept-changes": "andiron.wings.runs.accept_changes:main",
    "runs": "andiron.wings.runs.command:main",
    "differ": "andiron.wings.runs.command:differ_main",
    "seeds": "andiron.wings.runs.seeds:main",
    "import-state-dict": "andiron.wings.trained.import_state_dict:main",
    "new": "andiron.wings.runs.new_project:main",
    "schema": "andiron.wings.runs.editor_schema:main",
    "verify-resume": "andiron.exact_resume.verify_resume:main",
}
GUIDE = "andiron.shell.cli.guide:main"


def main() -> int:
    """Runs the command that the first argument names; returns its exit code."""
    name = "train"
    is_guide = sys.argv[1:] in (["--help"], ["-h"])
    if len(sys.argv) > 1 and sys.argv[1] in COMMANDS:
        name = sys.argv.pop(1)
    if name != "train":
        sys.argv[0] = f"andiron {name}"  # in its --help and messages
    place = GUIDE if is_guide else COMMANDS[name]
    module, _, function = place.partition(":")
    if name == "verify-resume" and (CHECKOUT / "proofs").is_dir():  # where a checkout has it
        sys.path.append(str(CHECKOUT))
        module = "proofs.exact_resume.verify_resume"
    code: int = getattr(importlib.import_module(module), function)()
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`andiron <command>`, also as `python -m andiron`; without the name of a command it trains."""

import importlib
import sys
from pathlib import Path

from andiron.plain import wings

CHECKOUT = Path(__file__).resolve().parents[2]

COMMANDS = {  # module:function, each imported only when it is asked for
    "train": "andiron.shell.training.train:script",
    "watch": "andiron.wings.screen.watch:main",
    "check": "andiron.wings.runs.check:main",
    "plan": "andiron.wings.runs.plan:main",
    "evaluate": "andiron.wings.trained.evaluate:main",
    "predict": "andiron.wings.trained.predict:main",
    "generate": "andiron.wings.trained.generate:main",
    "export": "andiron.wings.trained.exports.export:main",
    "accept-changes": "andiron.wings.runs.accept_changes:main",
    "runs": "andiron.wings.runs.command:main",
    "import-state-dict": "andiron.wings.trained.import_state_dict:main",
    "new": "andiron.wings.runs.new_project:main",
    "schema": "andiron.wings.runs.editor_schema:main",
}
GUIDE = "andiron.shell.cli.guide:main"
# found in the entry point group `andiron.commands`, as those of any package, or in a checkout
OF_THE_LAB = (
    "bisect", "differ", "find-lr", "recheck", "replay", "rerun", "samples", "seeds", "try",
    "verify-resume",
)  # fmt: skip


def others() -> dict[str, str]:
    """The commands of other packages, as `COMMANDS`."""
    import importlib.metadata  # not for the commands here

    entries = importlib.metadata.entry_points(group="andiron.commands")
    found = {entry.name: entry.value for entry in entries}
    lab = wings.optional(f"{wings.LAB}.commands")
    return found | (lab.COMMANDS if lab else {})


def main() -> int:
    """Runs the command that the first argument names; returns its exit code."""
    name = "train"
    is_guide = sys.argv[1:] in (["--help"], ["-h"])
    commands = COMMANDS
    if len(sys.argv) > 1 and sys.argv[1].replace("-", "").isalpha():
        commands = COMMANDS if sys.argv[1] in COMMANDS else others()
        if sys.argv[1] in commands:
            name = sys.argv.pop(1)
        elif sys.argv[1] in OF_THE_LAB:
            print(f"error: {wings.missing_lab(f'andiron {sys.argv[1]}')}", file=sys.stderr)
            return 2
    if name != "train":
        sys.argv[0] = f"andiron {name}"  # in its --help and messages
    place = GUIDE if is_guide else (commands | COMMANDS)[name]
    module, _, function = place.partition(":")
    if name == "verify-resume" and (CHECKOUT / "proofs").is_dir():  # where a checkout has it
        sys.path.append(str(CHECKOUT))
        module = "proofs.exact_resume.verify_resume"
    code: int = getattr(importlib.import_module(module), function)()
    return code


if __name__ == "__main__":
    sys.exit(main())

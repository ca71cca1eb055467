"""The commands of the lab: module:function, each imported only when it is asked for."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

COMMANDS = {
    "bisect": "andiron_lab.ask.bisect:main",
    "consolidate": "andiron_lab.sharded.consolidate:main",
    "differ": "andiron_lab.seeds.differ:main",
    "find-lr": "andiron_lab.views.find_lr:main",
    "import-state-dict": "andiron_lab.records.import_state_dict:main",
    "recheck": "andiron_lab.ask.recheck:main",
    "replay": "andiron_lab.ask.replay:main",
    "rerun": "andiron_lab.ask.rerun:main",
    "samples": "andiron_lab.ask.samples:main",
    "schema": "andiron_lab.views.editor_schema:main",
    "seeds": "andiron_lab.seeds.seeds:main",
    "tokenize": "andiron_lab.data.tokenizing:main",
    "try": "andiron_lab.seeds.ideas:main",
    "verify-resume": "andiron_lab.exact_resume.verify_resume:main",
}
if (CHECKOUT / "proofs").is_dir():  # where a checkout has it
    sys.path.append(str(CHECKOUT))
    COMMANDS["verify-resume"] = "proofs.exact_resume.verify_resume:main"

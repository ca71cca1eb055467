#!/usr/bin/env bash
# hydra-core 1.3.8: a value on the command line that looks like a number of Python is one, before its option is looked at, and
# an option declared as text gets the number's text: a time stamp 20261129_072523 loses its underscore, a commit 12e3456 is
# "inf", 5e3 is "5000.0". A run is so written into, or read from, another folder than the one that was typed, and 1_23 and
# 12_3 are one. Quotes that reach Hydra keep it ('name="1_23"'); an ISO date and 007 are kept as they are.
# Seen: name=20261129_072523 -> 20261129072523, 12e3456 -> inf, 5e3 -> 5000.0, 1_23 and 12_3 -> 123, 007 -> 007.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q hydra-core==1.3.8 omegaconf==2.3.1; FINDINGS_PY=venv/bin/python
fi
cat > program.py <<'PY'
import dataclasses

import hydra
from hydra.core.config_store import ConfigStore


@dataclasses.dataclass
class Options:
    name: str = "x"


ConfigStore.instance().store("options", Options)


@hydra.main(version_base="1.3", config_path=None, config_name="options")
def main(options):
    print(options.name)


main()
PY
"$FINDINGS_PY" - "$FINDINGS_PY" <<'PY'
import subprocess
import sys

import hydra

EXPECTED = {
    "20261129_072523": "20261129072523", "12e3456": "inf", "5e3": "5000.0", "1_23": "123", "12_3": "123",
    '"1_23"': "1_23", "007": "007", "2026-11-29": "2026-11-29",
}
found = {}
for typed in EXPECTED:
    command = [sys.argv[1], "program.py", f"name={typed}", "hydra.run.dir=run", "hydra.output_subdir=null"]
    found[typed] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
print(hydra.__version__, found)
assert found == EXPECTED, "names are read otherwise"
PY

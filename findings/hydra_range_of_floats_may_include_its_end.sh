#!/usr/bin/env bash
# hydra-core 1.3.8: the page of its override grammar has r[i] = start + step*i with r[i] < stop for range(start,stop,step). A
# range of floats instead adds its steps one by one, as decimals of 28 digits, and has the end where the rounded sum stays below
# it: range(0,0.4,0.1) has 0.4, and a sweep of four values is one of five. An end half a step earlier is safe.
# Seen, of ends 0.1 to 1.0 at steps of 0.1: 0.1, 0.2, 0.4 and 0.8 are included, the others are not; range(0,0.35,0.1) ends at 0.3.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q hydra-core==1.3.8 omegaconf==2.3.1; FINDINGS_PY=venv/bin/python
fi
cat > program.py <<'PY'
import hydra


@hydra.main(version_base="1.3", config_path=None)
def main(options):
    print("value", options.value)


main()
PY
"$FINDINGS_PY" - "$FINDINGS_PY" <<'PY'
import subprocess
import sys

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser

parser = OverridesParser.create()


def values(end):
    return [float(text) for text in parser.parse_override(f"value=range(0,{end},0.1)").sweep_string_iterator()]


ends = [f"0.{tenth}" for tenth in range(1, 10)] + ["1.0"]
included = [end for end in ends if max(values(end)) > float(end) - 0.01]
earlier = [f"{float(end) - 0.05:.2f}" for end in ends]
command = [sys.argv[1], "program.py", "-m", "+value=range(0,0.4,0.1)", "hydra.sweep.dir=jobs", "hydra.output_subdir=null"]
shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
jobs = [line.split()[1] for line in shown.splitlines() if line.startswith("value ")]
print(hydra.__version__, "included:", included, "jobs of range(0,0.4,0.1):", jobs)
assert included == ["0.1", "0.2", "0.4", "0.8"] and jobs == ["0.0", "0.1", "0.2", "0.3", "0.4"], "the ends are others"
assert [len(values(end)) for end in earlier] == list(range(1, 11)), "half a step earlier changes the values"
PY

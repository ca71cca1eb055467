#!/usr/bin/env bash
# hydra-core 1.3.8, omegaconf 2.3.1: one text is two values: in a file of the configuration YAML 1.1 reads it, on the command line
# Hydra's grammar. In a file a site 010 is 8 (octal), a time 12:30 is 750 and 1:30:45 is 5445 (base 60), 0x10 is 16, yes, no, on
# and off are booleans; on the command line all these are texts. 1_000 is a number in both, nan on the command line alone, and .nan in
# a file alone. An override that repeats the line of a file so changes it, and a run cannot be repeated by typing its file.
# Quotes in the file keep the text.
# Seen, file and command line: 010 -> 8, '010'; 12:30 -> 750, '12:30'; no -> False, 'no'; 0x10 -> 16, '0x10'; nan -> 'nan', nan.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q hydra-core==1.3.8 omegaconf==2.3.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
from pathlib import Path

import hydra
import omegaconf

texts = ["010", "12:30", "1:30:45", "0x10", "no", "off", "1_000", "nan", ".nan", "1e-3", "2026-01-01"]
values = {}
for text in texts:
    Path("config.yaml").write_text(f"value: {text}\n")
    with hydra.initialize_config_dir(str(Path.cwd()), version_base="1.3"):
        file, typed = (hydra.compose("config", overrides).value for overrides in ([], [f"value={text}"]))
    values[text] = (repr(file), repr(typed))
print(hydra.__version__, omegaconf.__version__, values)
alike = {text for text, (file, typed) in values.items() if file == typed}
assert alike == {"1_000", "1e-3", "2026-01-01"}, "the two read other texts alike"
assert values["010"] == ("8", "'010'") and values["12:30"] == ("750", "'12:30'") and values["no"] == ("False", "'no'")
PY

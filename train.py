"""Train a model: `python train.py optimizer=adam lr=1e-3`. `--help` tells what can be chosen, `-m` sweeps."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))  # a plain checkout needs no install of its own

from andiron.commands import train  # noqa: E402

if __name__ == "__main__":
    sys.exit(train.main(HERE / "conf"))

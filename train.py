"""Train a model: `python train.py optimizer=adam lr=1e-3`. `--help` lists choices, `-m` sweeps."""

import signal

if __name__ == "__main__" and hasattr(signal, "pthread_sigmask"):  # Windows has none
    # they wait until `train.script` answers them; not in a worker, which imports this file too
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

import gc  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

gc.disable()  # imports and the config make many objects and no garbage; training turns it on again
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))  # a plain checkout needs no install of its own

from andiron.shell.training import train  # noqa: E402

if __name__ == "__main__":
    exit_code = train.script(HERE / "conf")
    gc.freeze()  # Python searches everything for garbage as it ends, which takes 0.1 s
    sys.exit(exit_code)

"""`python -m andiron` and `torchrun -m andiron`: train.py where the package is installed."""

import sys

from andiron.commands import train

if __name__ == "__main__":
    sys.exit(train.script())

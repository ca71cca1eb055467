"""The run-time type checker of the tests: an int is accepted where a float is annotated, as PEP 484
has it.
"""

import random

from beartype import BeartypeConf, beartype
from beartype._check.code import codemain

# the items to check are drawn apart from Python's own generator, which is a part of a run's state
codemain.getrandbits = random.Random(0).getrandbits
check = beartype(conf=BeartypeConf(is_pep484_tower=True))

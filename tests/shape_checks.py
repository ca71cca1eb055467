"""The run-time type checker of the tests: an int is accepted where a float is annotated, as PEP 484
has it.
"""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))

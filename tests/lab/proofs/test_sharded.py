"""`strategy=fsdp`: processes with parts of a model train as one does, and say what fails."""

import os

import pytest

from proofs import several_processes
from proofs.rank_cases import IN_COPIES, SHARDED

pytestmark = pytest.mark.usefixtures("preloaded_processes")


def test_parts_in_2_and_4_processes_have_the_bits_of_one(tmp_path):
    every = 1 if "ANDIRON_ALL_SHARDED" in os.environ else 6  # all take ten minutes
    names = [f"{name}_fsdp" for name in [*SHARDED][::every]]
    names += [f"{name}_hsdp" for name in IN_COPIES[::every]]  # in 4 processes two copies of parts

    outcomes, faults = several_processes.prove(names, tmp_path, [2, 4])

    assert faults == []
    assert {*outcomes[0].columns} == {"2", "4", "2, 4, 1"}  # begun by 2, continued by 4, ended by 1

"""Imported by the process that a sweep's jobs are forked from.

Each job inherits its imports and what it knows about the machine.
"""

import gc

gc.disable()  # imports create many objects and no garbage; training re-enables it

import platform  # noqa: E402

import numpy.random  # noqa: E402, F401
import pydantic  # noqa: E402

from andiron.shell.run import provenance  # noqa: E402
from andiron.shell.training import experiment  # noqa: E402, F401
from andiron.wings.runs import run_list  # noqa: E402, F401
from andiron.wings.sweep import job  # noqa: E402, F401

platform.platform()  # runs a command once, then cached
provenance.versions()
pydantic.TypeAdapter(bool)  # the first adapter searches all packages for plugins
gc.freeze()  # a collection among the modules would copy the memory that jobs share

"""Imported by the process that jobs of a sweep are forked from.

What each job would import, or find out about the machine, is there once they are forked.
"""

import gc

gc.disable()  # imports make many objects and no garbage; training turns it on again

import platform  # noqa: E402

import numpy.random  # noqa: E402, F401
import pydantic  # noqa: E402

from andiron import experiment  # noqa: E402, F401
from andiron.commands import job  # noqa: E402, F401
from andiron.comparison import objective  # noqa: E402, F401
from andiron.run import provenance  # noqa: E402

platform.platform()  # asks a command, once
provenance.versions()
pydantic.TypeAdapter(bool)  # the first searches all packages for plugins

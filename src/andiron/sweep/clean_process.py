"""Imported by the process that jobs of a sweep are forked from.

What each job would import, or find out about the machine, is there once they are forked.
"""

import gc

gc.disable()  # imports make many objects and no garbage; training turns it on again

import importlib  # noqa: E402
import platform  # noqa: E402
from contextlib import suppress  # noqa: E402

import numpy.random  # noqa: E402, F401
import pydantic  # noqa: E402

from andiron.comparison import objective  # noqa: E402, F401
from andiron.run import provenance  # noqa: E402
from andiron.sweep import job  # noqa: E402, F401
from andiron.training import experiment  # noqa: E402, F401

LATE = (  # imported by libraries when they are first needed: 10 ms of each job
    "antlr4.LL1Analyzer",
    "hydra._internal.core_plugins.basic_launcher",
    "hydra._internal.core_plugins.basic_sweeper",
    "hydra._internal.core_plugins.file_config_source",
    "hydra._internal.core_plugins.importlib_resources_config_source",
    "hydra._internal.core_plugins.structured_config_source",
    "multiprocessing.popen_forkserver",
    "omegaconf._impl",
    "rich._emoji_codes",
)
for name in LATE:
    with suppress(ImportError):  # of another version
        importlib.import_module(name)
platform.platform()  # asks a command, once
provenance.versions()
pydantic.TypeAdapter(bool)  # the first searches all packages for plugins
gc.freeze()  # looking for garbage among the modules would copy the memory that jobs share

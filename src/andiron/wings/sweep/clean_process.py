"""Imported by the process that a sweep's jobs are forked from.

Each job inherits its imports and what it knows about the machine.
"""

import gc

gc.disable()  # imports create many objects and no garbage; training re-enables it

import importlib  # noqa: E402
import platform  # noqa: E402
from contextlib import suppress  # noqa: E402

import numpy.random  # noqa: E402, F401
import pydantic  # noqa: E402

from andiron.shell.run import provenance  # noqa: E402
from andiron.shell.training import experiment  # noqa: E402, F401
from andiron.wings.runs import objective  # noqa: E402, F401
from andiron.wings.sweep import job  # noqa: E402, F401

LATE = (  # imported lazily by libraries: 10 ms of each job
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
    with suppress(ImportError):  # another version of the library
        importlib.import_module(name)
platform.platform()  # runs a command once, then cached
provenance.versions()
pydantic.TypeAdapter(bool)  # the first adapter searches all packages for plugins
gc.freeze()  # a collection among the modules would copy the memory that jobs share

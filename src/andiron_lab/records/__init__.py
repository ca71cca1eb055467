"""Records in other formats and precisions: MessagePack, JSON, gzip, half floats; Burn's files.

`andiron.serialization` loads them by the names of their files.
"""

from andiron_lab.records.burn_layout import places
from andiron_lab.records.number_formats import restored
from andiron_lab.records.recorder import CompactRecorder, Recorder, format_of, load

__all__ = ["CompactRecorder", "Recorder", "format_of", "load", "places", "restored"]

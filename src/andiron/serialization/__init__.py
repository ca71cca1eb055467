"""Records: tensors and plain values to files and back, of any module, in several formats and precisions."""

from andiron.serialization.matching import Differences, load_what_fits
from andiron.serialization.layouts import LAYOUTS
from andiron.serialization.module_file import layout_of, load_file, save_file
from andiron.serialization.record import Record
from andiron.serialization.recorder import CompactRecorder, Recorder, load
from andiron.serialization.tensor_files import as_safetensors, load_tensors, save_tensors
from andiron.serialization.safetensors_codec import chunks

__all__ = [
    "CompactRecorder",
    "Differences",
    "LAYOUTS",
    "Record",
    "Recorder",
    "as_safetensors",
    "chunks",
    "layout_of",
    "load",
    "load_file",
    "load_tensors",
    "load_what_fits",
    "save_file",
    "save_tensors",
]

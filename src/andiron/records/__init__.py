"""Records: tensors and plain values to files and back, of any module, in several formats and precisions."""

from andiron.records.fitting import Differences, load_what_fits
from andiron.records.layouts import LAYOUTS
from andiron.records.module_file import layout_of, load_file, save_file
from andiron.records.record import Record
from andiron.records.recorder import CompactRecorder, Recorder, load
from andiron.records.safetensors_file import as_safetensors, load_tensors, save_tensors
from andiron.records.safetensors_format import chunks

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

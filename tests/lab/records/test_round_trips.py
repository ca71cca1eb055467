"""Any tensors, through any recorder, into any other precision: what comes back is what torch's own
cast makes of them.
"""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensor_bits import bits
from torch import nn

from andiron import errors, serialization
from andiron.serialization import safetensors_codec
from andiron_lab.records.number_formats import PRECISIONS
from andiron_lab.records.recorder import SUFFIXES

DTYPES = list(safetensors_codec.DTYPES)
FLOATS = [dtype for dtype in DTYPES if dtype.is_floating_point]
INTEGERS = [
    dtype
    for dtype in DTYPES
    if not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: name != "__metadata__"
)
SHAPES = st.lists(st.integers(0, 4), max_size=3)
ANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def tensors_of_any_bits(draw, dtypes=DTYPES):
    """A tensor of drawn bits, nans of any payload among them, lying in memory in one of several
    ways.
    """
    dtype, shape = draw(st.sampled_from(dtypes)), draw(SHAPES)
    number = torch.Size(shape).numel() * dtype.itemsize
    drawn = bytearray(draw(st.binary(min_size=number, max_size=number)))
    drawn = bytearray(byte % 2 for byte in drawn) if dtype == torch.bool else drawn
    tensor = (
        torch.frombuffer(drawn, dtype=dtype).reshape(shape)
        if number
        else torch.empty(shape, dtype=dtype)
    )
    way = draw(st.sampled_from(["as it is", "transposed", "every other", "expanded"]))
    if way == "transposed":
        return tensor.permute(list(reversed(range(tensor.dim()))))
    if way == "every other" and tensor.dim():
        return tensor[::2]
    return tensor[:1].expand(3, *shape[1:]) if way == "expanded" and shape and shape[0] else tensor


recorders = st.builds(
    serialization.Recorder, st.sampled_from(sorted(SUFFIXES)), precision=st.just("exact"),
    gzip=st.booleans(), narrow=st.booleans(),
)  # fmt: skip


def round_trip(recorder, record):
    with tempfile.TemporaryDirectory() as folder:
        recorder.record(record, Path(folder) / f"a{recorder.suffix}")
        return serialization.load(Path(folder) / f"a{recorder.suffix}")


def stays_finite(tensor, dtype):
    """Whether every finite value is finite in `dtype`; float8_e4m3fn makes 448 of infinity."""
    was_finite, is_finite = (value.double().isfinite() for value in (tensor, tensor.to(dtype)))
    return bool((is_finite | ~was_finite).all())


@ANY
@given(recorders, st.dictionaries(NAMES, tensors_of_any_bits(), max_size=4))
def test_exact_is_exact_to_the_bit_in_every_format(recorder, tensors):
    result = round_trip(recorder, serialization.Record(tensors)).tensors

    if recorder.format == "json":
        tensors = {name: with_one_nan(tensor) for name, tensor in tensors.items()}
    assert {name: bits(tensor) for name, tensor in result.items()} == {
        name: bits(t) for name, t in tensors.items()
    }


def with_one_nan(tensor):
    """The tensor with the NaN that torch makes in place of all others, whose bits JSON has not."""
    if tensor.is_complex():
        return torch.view_as_complex(with_one_nan(torch.view_as_real(tensor)))
    wide = tensor.double()
    one = wide.where(~wide.isnan(), torch.nan)
    return one.to(tensor.dtype) if tensor.is_floating_point() else tensor


@ANY
@given(recorders, st.sampled_from(sorted(PRECISIONS)), tensors_of_any_bits(FLOATS))
def test_a_precision_is_what_torchs_cast_makes_of_it(recorder, precision, tensor):
    recorder = serialization.Recorder(
        recorder.format, precision=precision, gzip=recorder.gzip, narrow=recorder.narrow
    )
    dtype = PRECISIONS[precision] or tensor.dtype
    if stays_finite(tensor, dtype):
        assert bits(round_trip(recorder, serialization.Record({"w": tensor})).tensors["w"]) == bits(
            tensor.contiguous().to(dtype)
        )
    else:
        with pytest.raises(errors.DataError, match="these would become infinite"):
            round_trip(recorder, serialization.Record({"w": tensor}))


@ANY
@given(
    recorders,
    st.sampled_from(sorted(PRECISIONS)),
    tensors_of_any_bits([d for d in DTYPES if not d.is_floating_point]),
)
def test_a_precision_leaves_what_is_not_floating(recorder, precision, tensor):
    recorder = serialization.Recorder(
        recorder.format, precision=precision, gzip=recorder.gzip, narrow=recorder.narrow
    )

    assert bits(round_trip(recorder, serialization.Record({"n": tensor})).tensors["n"]) == bits(
        tensor
    )


class Holder(nn.Module):
    """A module of one buffer, or of the same under two names."""

    def __init__(self, tensor, is_tied):
        super().__init__()
        self.register_buffer("one", tensor)
        if is_tied:
            self.register_buffer("other", self.one)


def through_a_module(recorder, saved, own, is_tied):
    loaded = Holder(own, is_tied)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{recorder.suffix}"
        serialization.save_file(Holder(saved, is_tied), path, recorder)
        serialization.load_file(loaded, path)
    assert loaded.one is own and not (is_tied and loaded.other is not own)


@ANY
@given(
    recorders, st.sampled_from(sorted(PRECISIONS)), tensors_of_any_bits(FLOATS),
    st.sampled_from(FLOATS), st.booleans(),
)  # fmt: skip
def test_floats_of_any_precision_load_into_a_module_of_any_other(
    recorder, precision, tensor, dtype, is_tied
):
    recorder = serialization.Recorder(
        recorder.format, precision=precision, gzip=recorder.gzip, narrow=recorder.narrow
    )
    stored = PRECISIONS[precision] or tensor.dtype
    own = torch.zeros(tensor.shape, dtype=torch.float32).to(dtype)
    if not stays_finite(tensor, stored):
        return
    if stays_finite(tensor.to(stored), dtype):
        through_a_module(recorder, tensor, own, is_tied)
        # torch casts nan by layout to other bits
        assert bits(own) == bits(own.clone().copy_(tensor.contiguous().to(stored)))
    else:
        with pytest.raises(errors.MismatchError, match=f"would be infinite as {dtype}"):
            through_a_module(recorder, tensor, own, is_tied)


@ANY
@given(recorders, tensors_of_any_bits(INTEGERS), st.sampled_from(INTEGERS), st.booleans())
def test_integers_load_into_any_module_whose_dtype_has_them_and_never_wrap(
    recorder, tensor, dtype, is_tied
):
    own, limits = torch.zeros(tensor.shape, dtype=dtype), torch.iinfo(dtype)
    values = tensor.flatten().tolist()
    if all(limits.min <= value <= limits.max for value in values):
        through_a_module(recorder, tensor, own, is_tied)
        assert own.flatten().tolist() == values
    else:
        with pytest.raises(
            errors.MismatchError,
            match=f"has integers in the record that {dtype} in the module cannot hold",
        ):
            through_a_module(recorder, tensor, own, is_tied)


def test_a_compressed_file_holds_every_dtype(tmp_path):
    tensors = {str(dtype): torch.ones(2).to(dtype) for dtype in DTYPES}
    path = tmp_path / "all.safetensors.gz"
    serialization.Recorder("safetensors", gzip=True).record(serialization.Record(tensors, {}), path)
    assert {name: bits(tensor) for name, tensor in serialization.load(path).tensors.items()} == {
        name: bits(tensor) for name, tensor in tensors.items()
    }

"""The types of Arrow columns that are read by place, and those that are refused, by name."""

from typing import Any

import numpy as np
import torch

from andiron_lab.data.arrow_columns import DTYPES, Booleans, Column, Lengthy, Numbers

FIELD_OF_PICTURES = "bytes"  # of datasets' Image, beside the path


class NotReadError(ValueError):
    """Why a column cannot be read by place, and what helps."""


def kind_of(kind: Any) -> tuple[Any, tuple[int, ...]]:
    """The kind of a column's values, and the shape of an array in each row.

    Kinds are a dtype, `bool`, bytes, text, and for lists a pair of list and a dtype.
    Raises: NotReadError for a type that cannot be read by place.
    """
    import pyarrow as pa

    types, shape, inner = pa.types, list[int](), kind
    if types.is_struct(kind) and kind.get_field_index(FIELD_OF_PICTURES) >= 0:
        inner = kind.field(FIELD_OF_PICTURES).type
        if types.is_binary(inner) or types.is_large_binary(inner):
            return "bytes", ()
    while types.is_fixed_size_list(inner) and inner.list_size:
        shape.append(inner.list_size)
        inner = inner.value_type
    if not shape and types.is_dictionary(inner):
        inner = inner.index_type
    if str(inner) in DTYPES:
        return DTYPES[str(inner)], tuple(shape)
    if not shape and types.is_boolean(inner):
        return torch.bool, ()
    if not shape and (types.is_binary(inner) or types.is_large_binary(inner)):
        return "bytes", ()
    if not shape and (types.is_string(inner) or types.is_large_string(inner)):
        return "text", ()
    is_list = types.is_list(inner) or types.is_large_list(inner)
    if not shape and is_list and str(inner.value_type) in DTYPES:
        return (list, DTYPES[str(inner.value_type)]), ()
    raise NotReadError(f"is of type {kind}, which is not read by place; {_remedy(kind)}")


def column_of(kind: Any, places: np.ndarray, rows: int) -> Column:
    """The column of a type, with the places of each record batch; see `Map.places`."""
    value, shape = kind_of(kind)
    begins = places[:, 0]
    if value == torch.bool:
        return Booleans(begins)
    if isinstance(value, torch.dtype):
        return Numbers(value, shape, begins)
    is_list = isinstance(value, tuple)
    total = int((places[:, 3] - places[:, 2]).sum())
    content = value[1] if is_list else value
    length = total // rows if is_list and total % rows == 0 and total else None
    size = content.itemsize if is_list else 1
    offset = offset_bytes(_binary(kind))
    return Lengthy(content, offset, begins, places[:, 1], total * size / rows + offset, length)


def offset_bytes(kind: Any) -> int:
    """The length of an offset of lists, bytes and text."""
    return 8 if str(kind).startswith("large_") else 4


def _remedy(kind: Any) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_nested(kind):
        return "make it a column for each field, lists of numbers, or arrays of one size"
    if "view" in str(kind):
        return "cast it to string or binary: polars' write_ipc(compat_level=CompatLevel.oldest())"
    if types.is_temporal(kind) or types.is_decimal(kind) or str(kind) == "uint64":
        return "cast it to int64 or float64"
    return f"cast it to one of {', '.join(DTYPES)}, bool, binary or string"


def _binary(kind: Any) -> Any:
    """The type of the bytes of a picture, or the type itself."""
    has_bytes = hasattr(kind, "get_field_index") and kind.get_field_index(FIELD_OF_PICTURES) >= 0
    return kind.field(FIELD_OF_PICTURES).type if has_bytes else kind

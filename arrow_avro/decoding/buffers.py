"""Arrow arrays from numpy arrays as buffers, and nulls put between the values of an array. Pure.

`pa.array` and `to_numpy` are slower, and import pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from arrow_avro.arrow_values import I64

    I32 = npt.NDArray[np.int32]
    Mask = npt.NDArray[np.bool_]

_BYTE = 8  # bits


def filled(arrow: pa.DataType, count: int, *stored: npt.NDArray[Any]) -> pa.Array:
    """An array of `count` values without nulls. `stored` are the buffers that follow the validity in Arrow's layout."""
    return pa.Array.from_buffers(
        arrow, count, [None, *(pa.py_buffer(np.ascontiguousarray(each)) for each in stored)], 0
    )


def struct(arrow: pa.DataType, children: Sequence[pa.Array], count: int) -> pa.Array:
    """A struct array of `count` values without nulls, perhaps without children."""
    if children:
        return pa.StructArray.from_arrays(children, fields=list(arrow))
    return pa.Array.from_buffers(arrow, count, [None], 0)


def with_nulls(array: pa.Array, valid: Mask) -> pa.Array:
    """An array that had no nulls, null where `valid` is false."""
    return with_validity(array, np.packbits(valid, bitorder="little"))


def with_validity(array: pa.Array, valid: npt.NDArray[np.uint8]) -> pa.Array:
    """An array that had no nulls, null where the bits of `valid` are 0. The array itself if they are all 1."""
    children = [array.field(place) for place in range(array.type.num_fields)] if pa.types.is_struct(array.type) else []
    stored = [pa.py_buffer(valid), *array.buffers()[1 : 1 if children else None]]
    found = pa.Array.from_buffers(array.type, len(array), stored, children=children)
    return found if found.null_count else array


def offsets_from_ends(ends: I32) -> I32:
    """Where each value begins, and where the last ends, from where each ends."""
    offsets: I32 = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return offsets


def offsets_of(lengths: I64) -> I32:
    """Where each value begins, and where the last ends. The sum of the lengths must be below 2**31."""
    offsets: I32 = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:], dtype=np.int32)
    return offsets


def indices(places: I32, valid: Mask | None = None) -> pa.Array:
    """Places to take from an array, null where `valid` is false."""
    stored = [None if valid is None else _bitmap(valid), pa.py_buffer(np.ascontiguousarray(places))]
    return pa.Array.from_buffers(pa.int32(), len(places), stored)


def texts(arrow: pa.DataType, values: Sequence[str | None]) -> pa.Array:
    """An array of strings and nulls."""
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = offsets_of(np.array([len(value) for value in encoded], np.int64))
    valid = np.array([value is not None for value in values], np.bool_)
    stored = [pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(arrow, len(encoded), [None if valid.all() else _bitmap(valid), *stored])


def spread(array: pa.Array, valid: Mask) -> pa.Array:
    """The values of `array`, none of which is null, where `valid` is true, and nulls elsewhere.

    [7, 8] becomes [null, 7, 8] if `valid` is [False, True, True].
    """
    arrow, count = array.type, len(valid)
    if len(array) == 0:
        return pa.nulls(count, arrow)
    if not array.offset and (pa.types.is_string(arrow) or pa.types.is_binary(arrow)):
        _, offsets, data = array.buffers()
        widened: I32 = np.zeros(count + 1, np.int32)
        np.take(np.frombuffer(offsets, np.int32), np.cumsum(valid), out=widened[1:], mode="clip")
        return pa.Array.from_buffers(arrow, count, [_bitmap(valid), pa.py_buffer(widened), data])
    if not array.offset and pa.types.is_primitive(arrow) and arrow.bit_width >= _BYTE:
        stored = np.dtype(f"u{arrow.bit_width // _BYTE}")
        values = np.zeros(count, stored)
        values[valid] = np.frombuffer(array.buffers()[1], stored, len(array))
        return pa.Array.from_buffers(arrow, count, [_bitmap(valid), pa.py_buffer(values)])
    places = np.cumsum(valid, dtype=np.int32)
    places -= 1
    return array.take(indices(places, valid))


def _bitmap(valid: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))

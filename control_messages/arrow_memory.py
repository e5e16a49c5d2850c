"""The memory of Arrow arrays as numpy sees it, without a copy where possible.

`pa.array`, `pa.scalar` and `to_pylist` would import pandas into every worker: 50 MB and half a second.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_is

I64 = npt.NDArray[np.int64]

MOST_BYTES = 2**31 - 2
"""What Arrow puts into one array with 32-bit offsets."""


def validity(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows hold a value."""
    bits = pc.is_valid(array)
    if len(bits) == 0:
        return np.zeros(0, np.bool_)
    unpacked = np.unpackbits(np.frombuffer(bits.buffers()[1], np.uint8), bitorder="little")
    return unpacked[bits.offset :][: len(bits)].view(np.bool_)


def integers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an integer array; those under a null are arbitrary."""
    kind = np.dtype(str(array.type))  # Arrow and numpy name the integers alike
    if len(array) == 0:  # Arrow may then leave out the buffer
        return np.zeros(0, kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def data_offsets(array: pa.Array) -> npt.NDArray[np.int32] | I64:
    """Where each row of a binary or string array begins in its data, and where the last one ends."""
    wide = arrow_is.is_large_binary(array.type) or arrow_is.is_large_string(array.type)
    width: np.dtype[Any] = np.dtype(np.int64 if wide else np.int32)
    if len(array) == 0:
        return np.zeros(1, width)
    return np.frombuffer(array.buffers()[1], width, len(array) + 1, array.offset * width.itemsize)


def binary_values(array: pa.Array) -> list[bytes]:
    """The values of a binary or string array without nulls, strings as UTF-8."""
    data = array.buffers()[2]
    held = memoryview(b"" if data is None else data)
    return [bytes(held[first:last]) for first, last in pairwise(data_offsets(array).tolist())]


def integer_array(values: npt.NDArray[Any]) -> pa.Array:
    """The numbers as an Arrow array, without a copy."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def binary_array(offsets: npt.NDArray[Any], data: bytes) -> pa.Array:
    """The rows between the offsets; `large_binary` if those are of 64 bits."""
    kind = pa.large_binary() if offsets.dtype == np.int64 else pa.binary()
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

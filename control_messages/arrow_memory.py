"""The buffers of Arrow arrays as numpy arrays, without a copy where possible. Pure.

`pa.array`, `pa.scalar` and `to_pylist` would import pandas into every worker: 50 MB and half a second.
This package imports nothing of `azureblob_source`, whose `arrow_values` does the same for other types with other
contracts: there, offsets are always of 64 bits, and the validity of an array without nulls is None.
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
"""The most that an array with 32-bit offsets holds."""


def validity(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows hold a value."""
    bits = pc.is_valid(array)
    if len(bits) == 0:
        return np.zeros(0, np.bool_)
    unpacked = np.unpackbits(np.frombuffer(bits.buffers()[1], np.uint8), bitorder="little")
    return unpacked[bits.offset :][: len(bits)].view(np.bool_)


def integers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an integer array; those of nulls are arbitrary."""
    kind = np.dtype(str(array.type))  # Arrow and numpy have the same names for integer types
    if len(array) == 0:  # Arrow may then omit the buffer
        return np.zeros(0, kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def data_offsets(array: pa.Array) -> npt.NDArray[np.int32] | I64:
    """The n + 1 offsets of a binary or string array into its data."""
    wide = arrow_is.is_large_binary(array.type) or arrow_is.is_large_string(array.type)
    width: np.dtype[Any] = np.dtype(np.int64 if wide else np.int32)
    if len(array) == 0:
        return np.zeros(1, width)
    return np.frombuffer(array.buffers()[1], width, len(array) + 1, array.offset * width.itemsize)


def binary_values(array: pa.Array) -> list[bytes]:
    """The values of a binary or string array without nulls, strings as UTF-8."""
    data = array.buffers()[2]
    view = memoryview(b"" if data is None else data)
    return [bytes(view[first:last]) for first, last in pairwise(data_offsets(array).tolist())]


def integer_array(values: npt.NDArray[Any]) -> pa.Array:
    """The numbers as an Arrow array, without a copy."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def binary_array(offsets: npt.NDArray[Any], data: bytes) -> pa.Array:
    """A binary array of the data between the offsets; `large_binary` if these are of 64 bits."""
    kind = pa.large_binary() if offsets.dtype == np.int64 else pa.binary()
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

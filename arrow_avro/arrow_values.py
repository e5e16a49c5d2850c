"""The buffers of Arrow arrays as numpy arrays: values, validity, offsets and bytes, without a copy where possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_is

I64 = npt.NDArray[np.int64]
"""An array of 64-bit integers."""
U64 = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
_u = np.uint64


def validity(array: pa.Array) -> Flags | None:
    """Which rows are not null; None if all are."""
    if array.null_count == 0:
        return None
    if arrow_is.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    bitmap = array.buffers()[0]
    return unpacked(bitmap, array.offset, len(array))


def plain_array(array: pa.Array) -> pa.Array:
    """The array with dictionaries and run ends decoded, extension types as their storage, and views as large binary."""
    while True:
        if arrow_is.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif arrow_is.is_run_end_encoded(array.type):
            from pyarrow.compute import run_end_decode  # noqa: PLC0415 - seldom needed; the planning of reads has no use for it

            array = run_end_decode(array)
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif arrow_is.is_string_view(array.type) or arrow_is.is_binary_view(array.type):
            array = array.cast(pa.large_binary())
        else:
            return array


def first_not_utf8(array: pa.Array) -> int | None:
    """The first row of a string or binary array whose bytes are no UTF-8."""
    if are_utf8(array):
        return None
    begin, end = 0, len(array)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if are_utf8(array.slice(begin, middle - begin)) else (begin, middle)
    return begin


def are_utf8(array: pa.Array) -> bool:
    """Whether the bytes of a string or binary array are UTF-8."""
    try:
        if arrow_is.is_string(array.type) or arrow_is.is_binary(array.type):
            array.cast(pa.binary()).cast(pa.string())
        else:
            array.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def int64_array(values: I64) -> pa.Array:
    """The numbers as an Arrow array, without a copy. `pa.array` would import pandas: 50 MB and half a second."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def chosen(array: pa.Array, rows: I64) -> pa.Array:
    """These rows of an array; `rows` are ascending."""
    try:
        return array.take(int64_array(rows))
    except pa.ArrowNotImplementedError:  # `take` does not support views, nor types that contain them
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        slices = [array.slice(int(run[0]), len(run)) for run in runs if len(run)]
        return pa.concat_arrays(slices or [array.slice(0, 0)])


def spans(array: pa.Array) -> tuple[Bytes, I64, U64, Flags | None]:
    """Data, starts, lengths (0 for null) and validity of a string or binary array."""
    valid, count = validity(array), len(array)
    if arrow_is.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = _buffer(array.buffers()[1])
        start = np.arange(array.offset, array.offset + count, dtype=np.int64) * width
        length = np.full(count, width, _u)
    else:
        data = _buffer(array.buffers()[2])
        offsets = list_offsets(array)
        start, length = offsets[:-1], np.diff(offsets).view(_u)
    if valid is not None:
        length = length * valid.astype(_u)
    return data, start, length, valid


def list_offsets(array: pa.Array) -> I64:
    """The n + 1 offsets of a list, map, string or binary array, relative to its child or data buffer."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    kind = array.type
    if arrow_is.is_fixed_size_list(kind):
        return np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * kind.list_size
    wide = arrow_is.is_large_list(kind) or arrow_is.is_large_string(kind) or arrow_is.is_large_binary(kind)
    raw = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
    return raw[array.offset : array.offset + len(array) + 1].astype(np.int64)


def stored_values(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    """The values of a fixed-width array; those of nulls are arbitrary."""
    if len(array) == 0:
        return np.empty(0, dtype)
    item = np.dtype(dtype)
    flat = np.frombuffer(array.buffers()[1], item.base, offset=array.offset * item.itemsize)
    return flat[: len(array) * (item.itemsize // item.base.itemsize)]


def unpacked(bitmap: Any, offset: int, count: int) -> Flags:
    """The `count` bits of a bitmap from bit `offset` on, as flags."""
    first = offset // 8
    packed = np.frombuffer(bitmap, np.uint8)[first : (offset + count + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset - 8 * first :][:count].view(np.bool_)


def _buffer(buffer: Any) -> Bytes:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)

"""Arrow arrays from bytes and from numpy, and flags of Arrow in numpy. Pure.

`pa.array`, `pa.scalar` and numpy's `asarray` of an Arrow array would import pandas into every worker that looks keys
up: 50 MB, and more processor time than all else that it loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def large_binaries(values: Sequence[bytes | None]) -> pa.Array:
    """The values as `large_binary`; None is null."""
    there: NDArray[np.bool_] | None = None
    try:
        sizes = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]
    except TypeError:  # None has no length
        sizes = np.array([-1 if each is None else len(each) for each in values], np.int64)
        there = sizes >= 0
        sizes[~there] = 0
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = b"".join(filter(None, values))
    buffers = [None if there is None else _bits(there), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def constant(data: bytes | None) -> Any:
    """The `large_binary` scalar; None is null."""
    return large_binaries([data])[0]


def rows_or_null(rows: NDArray[np.int64], there: NDArray[np.bool_]) -> pa.Array:
    """Numbers of rows, null where there is none."""
    return pa.Array.from_buffers(pa.int64(), len(rows), [_bits(there), pa.py_buffer(np.ascontiguousarray(rows))])


def booleans(flags: NDArray[np.bool_]) -> pa.BooleanArray:
    """The flags as an Arrow array."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def flags(array: pa.BooleanArray) -> NDArray[np.bool_]:
    """The inverse, for an array without nulls."""
    bits = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(bits, count=end, bitorder="little")[array.offset :].view(np.bool_)


def _bits(of: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(of, bitorder="little"))

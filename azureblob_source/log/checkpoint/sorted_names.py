"""Where names are in a sorted column of names. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence


def places_of(names: Sequence[str], column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where these names are in a sorted column of `large_string`; -1 for one that is not there.

    They are compared with the part between the first and the last of them: names of one page of a listing take little
    time.
    """
    keys = _Keys(column)
    low, high = bisect_left(keys, min(names)), bisect_right(keys, max(names))
    found = pc.index_in(pa.array(names, pa.large_string()), value_set=column.slice(low, high - low))
    at = found.fill_null(-1 - low).to_numpy(zero_copy_only=False).astype(np.int64)
    return at + low


class _Keys:
    """A column of texts as a sequence that can be searched."""

    def __init__(self, names: pa.Array | pa.ChunkedArray) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: int) -> str:
        return str(self._names[place].as_py())

"""Maps whose bytes have a key more than once: the last entry counts, as where Java puts them into a map. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from azureblob_source.avro.decoding.buffers import indices

if TYPE_CHECKING:
    from azureblob_source.arrow_values import I64

_SPARSE = 8  # marks for each entry, up to which setting them is faster than sorting


def last_entries(counts: I64, keys: pa.Array) -> tuple[I64, pa.Array] | None:
    """The counts of maps and the places of their entries without those whose key comes again; None if none does."""
    if not len(keys) or counts.max() <= 1:
        return None
    codes, distinct = _codes(keys)
    maps = np.repeat(np.arange(len(counts)), counts)
    marks = maps * distinct + codes
    if not _repeats(marks, len(counts) * distinct):
        return None
    _, last = np.unique(marks[::-1], return_index=True)
    kept = np.sort(len(marks) - 1 - last)
    return np.bincount(maps[kept], minlength=len(counts)), indices(kept.astype(np.int32))


def _codes(keys: pa.Array) -> tuple[I64, int]:
    """A number for each key, the same for equal ones, and how many numbers there are."""
    try:
        encoded = keys.dictionary_encode()
    except pa.ArrowNotImplementedError:  # keys with parts
        numbers: dict[str, int] = {}
        given = [numbers.setdefault(repr(key), len(numbers)) for key in keys.to_pylist()]
        return np.array(given, np.int64), len(numbers)
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(keys), 4 * encoded.indices.offset)
    return codes.astype(np.int64), len(encoded.dictionary)


def _repeats(marks: I64, limit: int) -> bool:
    if limit <= _SPARSE * len(marks):
        seen = np.zeros(limit, np.bool_)
        seen[marks] = True
        return int(np.count_nonzero(seen)) < len(marks)
    ordered = np.sort(marks)
    return bool((ordered[1:] == ordered[:-1]).any())

"""Maps whose bytes have a key more than once: the last entry counts, as when Java reads them into a map. Pure.

Such maps are rare, and the search must not slow down others. So it begins with two cheap checks: whether all maps have
the same keys in the same order, of which one then needs to be looked at, and whether keys have the same fingerprint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro.decoding.buffers import indices

if TYPE_CHECKING:
    import numpy.typing as npt

    from arrow_avro.arrow_values import I64, U64, Bytes

_WORD = 8  # bytes
_ODD = np.uint64(0x9E3779B97F4A7C15)  # odd, so that products with different numbers differ
_OTHER_ODD = np.uint64(0xC2B2AE3D27D4EB4F)


def entries_to_keep(counts: I64, keys: pa.Array) -> tuple[I64, pa.Array] | None:
    """The counts of maps, and the places of their entries, without entries whose key comes again in the same map.

    counts: the entries of each map. keys: those of all maps. None if all entries are kept.
    """
    if not len(keys) or counts.max() <= 1:
        return None
    if len(counts) > 1 and _are_alike(counts, keys):
        return None if entries_to_keep(counts[:1], keys[: counts[0]]) is None else _last_entries(counts, keys)
    fingerprints = _fingerprints(keys)
    if fingerprints is not None and not _repeat(counts, fingerprints):
        return None
    return _last_entries(counts, keys)


def _last_entries(counts: I64, keys: pa.Array) -> tuple[I64, pa.Array] | None:
    maps = np.repeat(np.arange(len(counts)), counts)
    codes, distinct = _codes(keys)
    _, last = np.unique((maps * distinct + codes)[::-1], return_index=True)
    if len(last) == len(keys):
        return None
    kept = np.sort(len(keys) - 1 - last)
    return np.bincount(maps[kept], minlength=len(counts)), indices(kept.astype(np.int32))


def _codes(keys: pa.Array) -> tuple[I64, int]:
    """A number for each key, the same for equal keys, and how many numbers there are."""
    try:
        encoded = keys.dictionary_encode()
    except pa.ArrowNotImplementedError:  # keys with parts
        numbers: dict[str, int] = {}
        given = [numbers.setdefault(repr(key), len(numbers)) for key in keys.to_pylist()]
        return np.array(given, np.int64), len(numbers)
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(keys), 4 * encoded.indices.offset)
    return codes.astype(np.int64), len(encoded.dictionary)


def _text(keys: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes] | None:
    """The offsets and bytes of keys that are texts without nulls, else None."""
    if keys.null_count or not (pa.types.is_string(keys.type) or pa.types.is_binary(keys.type)):
        return None
    _, offsets, data = keys.buffers()
    return np.frombuffer(offsets, np.int32, len(keys) + 1, 4 * keys.offset), np.frombuffer(data, np.uint8)


def _are_alike(counts: I64, keys: pa.Array) -> bool:
    """Whether all maps have the same texts as keys, in the same order."""
    text = _text(keys)
    if text is None or (counts != counts[0]).any():
        return False
    offsets, data = text
    size, width = int(counts[0]), int(offsets[counts[0]])
    lengths = np.diff(offsets)
    same = offsets[-1] == width * len(counts) and bool((lengths[size:] == lengths[:-size]).all())
    return same and bool((data[width : offsets[-1]] == data[: offsets[-1] - width]).all())


def _fingerprints(keys: pa.Array) -> U64 | None:
    """A number for each key: the same for equal keys, and hardly ever the same for others. None for some types.

    That of a text is computed from its length and its first and last eight bytes.
    """
    if pa.types.is_integer(keys.type) and not keys.null_count:
        wide = keys.cast(pa.int64())
        return np.frombuffer(wide.buffers()[1], np.uint64, len(wide), _WORD * wide.offset)
    text = _text(keys)
    return None if text is None else _text_fingerprints(*text)


def _text_fingerprints(offsets: npt.NDArray[np.int32], data: Bytes) -> U64:
    padded = np.concatenate([np.zeros(_WORD, np.uint8), data, np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))  # the eight bytes from each byte on
    starts, ends = offsets[:-1], offsets[1:]
    lengths = ends - starts
    # The eight bytes before the end of a shorter text begin with some of the text before it: they are shifted out.
    found: U64 = words[ends] >> (8 * np.maximum(_WORD - lengths, 0)).astype(np.uint64)
    found += lengths.astype(np.uint64) * _ODD
    if lengths.max() > _WORD:
        found ^= np.where(lengths > _WORD, words[starts + _WORD], np.uint64(0)) * _OTHER_ODD
    return found


def _repeat(counts: I64, fingerprints: U64) -> bool:
    """Whether a map has a fingerprint more than once. May be true by chance if none has."""
    of_maps = fingerprints ^ np.repeat(np.arange(len(counts), dtype=np.uint64) * _OTHER_ODD, counts)
    of_maps.sort()
    return bool((of_maps[1:] == of_maps[:-1]).any())

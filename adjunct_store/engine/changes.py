"""What sorted changes do to a partition: the last change of each key, if it is not older than what is there. Pure.

The changes of a key are neighbours, so only one of them has to be kept from a batch for the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.encoding.keys import decode_keys, encode_keys, readable_key
from adjunct_store.encoding.values import encode_values
from adjunct_store.engine.entry import Changes, are_values, data_keys, orders_of, records
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.engine.entry import I64

MOST_ENTRY_BYTES = 64 << 20


@dataclass
class ApplyResult:
    """What a run of changes did, and what there is after it.

    upserts, deletes: changes that took effect. ignored_older: those that were older than what was there. entries: keys
    with a value. tombstones: deleted keys that are remembered.
    """

    entries: int = 0
    tombstones: int = 0
    upserts: int = 0
    deletes: int = 0
    ignored_older: int = 0


def encoded(batches: Iterable[pa.RecordBatch], schema: StoreSchema) -> Iterator[Changes]:
    """Keys and records of batches with the key columns, then a struct (null: deleted), then orders if ordered.

    Columns are found by their places: keys may have any name.

    `ConfigurationError` for an entry that is too large, and for a value that its column cannot hold.
    """
    for batch in batches:
        if batch.num_rows:
            yield _encoded(batch, schema)


def last_changes(changes: Iterable[Changes], schema: StoreSchema) -> Iterator[Changes]:
    """The last change of each key. The changes are sorted by key and, in an ordered store, by order.

    `ConfigurationError` for two different changes of a key with the same order, or without one. `ValueError` if the
    changes are not sorted.
    """
    kept: Changes | None = None
    for each in changes:
        joined = each if kept is None else _joined(kept, each)
        last = _ends(joined, schema)
        kept = joined.take(last[-1:])
        if len(last) > 1:
            yield joined.take(last[:-1])
    if kept is not None:
        yield kept


def effective(
    changes: Changes, stored: Callable[[Sequence[bytes]], list[bytes | None]] | None, applied: ApplyResult
) -> Changes:
    """The changes that are not older than what is stored; counts what they do. stored: None if nothing is there."""
    count = len(changes.keys)
    there = (
        pa.array(stored(changes.keys.to_pylist()), pa.large_binary()) if stored else pa.nulls(count, pa.large_binary())
    )
    if changes.orders is not None and there.null_count < count:
        old = np.asarray(there.is_valid())
        older = np.zeros(count, bool)
        older[old] = changes.orders[old] < orders_of(there.drop_null())
        rows = np.flatnonzero(~older)
        applied.ignored_older += count - len(rows)
        changes, there = changes.take(rows), there.take(rows)
    now, before = are_values(changes.records), are_values(there)
    known = np.asarray(there.is_valid())
    applied.upserts += int(now.sum())
    applied.deletes += int((~now).sum())
    applied.entries += int(now.sum()) - int(before.sum())
    if changes.orders is not None:
        applied.tombstones += int((~now).sum()) - int((known & ~before).sum())
    return changes


def _encoded(batch: pa.RecordBatch, schema: StoreSchema) -> Changes:
    count = len(schema.keys)
    keys = pa.RecordBatch.from_arrays(batch.columns[:count], names=schema.keys.names)
    value = batch.column(count)
    whole = pa.RecordBatch.from_struct_array(value.drop_null())
    datums = encode_values(whole, schema)
    if value.null_count:
        at = np.cumsum(np.asarray(value.is_valid())) - 1
        datums = pc.if_else(
            value.is_valid(),
            datums.take(pa.array(np.maximum(at, 0))) if len(datums) else pa.nulls(len(value), pa.large_binary()),
            pa.scalar(None, pa.large_binary()),
        )
    orders = batch.column(count + 1).to_numpy(zero_copy_only=False).astype(np.int64) if schema.ordered else None
    made = Changes(data_keys(encode_keys(keys)), records(datums, orders), orders)
    _check_sizes(made, schema)
    return made


def _check_sizes(changes: Changes, schema: StoreSchema) -> None:
    sizes = pc.add(pc.binary_length(changes.keys), pc.binary_length(changes.records))
    most = pc.max(sizes).as_py()
    if most > MOST_ENTRY_BYTES:
        row = pc.index(sizes, most).as_py()
        key = _readable(changes.keys[row], schema)
        raise ConfigurationError(
            f"The entry of key {key} has {most:,} bytes; at most {MOST_ENTRY_BYTES:,} are allowed. "
            "Store large contents as blobs, and their names in the store."
        )


def _joined(first: Changes, second: Changes) -> Changes:
    orders = None if first.orders is None or second.orders is None else np.concatenate([first.orders, second.orders])
    keys = pa.concat_arrays([first.keys, second.keys])
    return Changes(keys, pa.concat_arrays([first.records, second.records]), orders)


def _ends(changes: Changes, schema: StoreSchema) -> I64:
    """The row of the last change of each key."""
    count = len(changes.keys)
    before, after = changes.keys.slice(0, count - 1), changes.keys.slice(1)
    if count > 1 and pc.any(pc.less(after, before)).as_py():
        raise ValueError("changes are not sorted by key")
    same = np.asarray(pc.equal(before, after)) if count > 1 else np.zeros(0, bool)
    _check_decided(changes, same, schema)
    return np.flatnonzero(np.append(~same, True))


def _check_decided(changes: Changes, same: I64, schema: StoreSchema) -> None:
    """Refuse neighbours with the same key that differ, unless the order says which of them is the last one."""
    rows = np.flatnonzero(same)
    if not len(rows):
        return
    if changes.orders is not None:
        if (changes.orders[rows + 1] < changes.orders[rows]).any():
            raise ValueError("changes of a key are not sorted by order")
        rows = rows[changes.orders[rows + 1] == changes.orders[rows]]
    differ = np.asarray(pc.not_equal(changes.records.take(rows), changes.records.take(rows + 1)))
    if differ.any():
        key = _readable(changes.keys[rows[int(np.argmax(differ))]], schema)
        tie = " with the same order" if schema.ordered else ""
        step = "Give `then_by`, columns of the source that say which is the later one, such as an offset."
        raise ConfigurationError(f"A batch has two different changes of key {key}{tie}. {step}")


def _readable(key: pa.Scalar, schema: StoreSchema) -> str:
    return readable_key(decode_keys(pa.array([key.as_py()[1:]], pa.large_binary()), schema.keys))

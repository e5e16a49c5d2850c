"""Many blobs as a table: chosen and packed as the same blobs are as objects."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.read.blob_table import BlobTable, splits_of
from azureblob_source.read.blobs import PLANNED, BlobSelection, StreamBlob
from azureblob_source.read.filters import ColumnFilter, mask
from azureblob_source.read.splits import pack_splits, split_blobs

MIB = 1 << 20
TIMES = st.integers(0, 9)


@st.composite
def many_blobs(draw: st.DrawFn) -> list[StreamBlob]:
    """Blobs in name order."""
    sizes = draw(st.lists(st.integers(1, 3 * MIB) | st.just(1) | st.just(40 * MIB), max_size=60))
    found = []
    for number, size in enumerate(sizes):
        first, last = sorted((draw(TIMES), draw(TIMES)))
        earliest = None if draw(st.booleans()) else first
        partition = draw(st.sampled_from(["a", "b", None]))
        found.append(StreamBlob(f"s/{number:04d}.avro", size, number, partition, earliest, last))
    return found


def table_of(blobs: list[StreamBlob]) -> BlobTable:
    rows = [{name: getattr(blob, name) for name in PLANNED} for blob in blobs]
    return BlobTable(pa.Table.from_pylist(rows, pa.schema([LIVE.field(name) for name in PLANNED])))


@given(many_blobs(), st.integers(1, 16).map(lambda each: each * MIB))
def test_blobs_are_packed_as_objects_are(blobs: list[StreamBlob], split_bytes: int) -> None:
    large, small = table_of(blobs).divided(split_bytes)
    assert [blob for blob in blobs if blob.size > split_bytes] == large
    packed = [tuple(splits_of(pack)) for pack in small.packs(split_bytes)]
    rest = [blob for blob in blobs if blob.size <= split_bytes]
    assert list(pack_splits(split_blobs(rest, split_bytes), split_bytes)) == packed
    assert sum(blob.size for blob in blobs) == table_of(blobs).size


@given(many_blobs(), st.none() | TIMES, st.none() | TIMES, st.sampled_from([None, "a", "a|b", "c"]))
def test_a_selection_chooses_the_blobs_that_it_keeps(
    blobs: list[StreamBlob], start: int | None, end: int | None, partitions: str | None
) -> None:
    selection = BlobSelection((start, end), None if partitions is None else re.compile(partitions))
    assert [blob for blob in blobs if selection.keeps(blob)] == list(table_of(blobs).selected(selection))


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (ColumnFilter("_partition", "EqualTo", "a"), {"s/0.avro"}),
        (ColumnFilter("_version", "GreaterThan", 0), {"s/1.avro", "s/2.avro"}),
        (ColumnFilter("_partition", "IsNull"), {"s/2.avro"}),
    ],
)
def test_filters_on_the_metadata_choose_blobs(condition: ColumnFilter, names: set[str]) -> None:
    blobs = [StreamBlob(f"s/{number}.avro", 1, number, level) for number, level in enumerate(("a", "b", None))]
    found = table_of([*map(_timed, blobs)]).where(lambda batch: mask(batch, [condition]))
    assert names == {blob.name for blob in found}


def _timed(blob: StreamBlob) -> StreamBlob:
    return StreamBlob(blob.name, blob.size, blob.version, blob.partition, 0, 0)

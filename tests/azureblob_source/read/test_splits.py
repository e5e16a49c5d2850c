from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.splits import Part, cut, packed

blobs = st.lists(
    st.builds(StreamBlob, st.sampled_from([f"s/{n:02d}.avro" for n in range(20)]), st.integers(0, 5000)),
    max_size=8,
    unique_by=lambda blob: blob.name,
)


@given(blobs, st.integers(1, 3000))
def test_parts_cover_every_blob_without_gap_in_name_order(found: list[StreamBlob], size: int) -> None:
    parts = list(cut(found, size))
    assert sorted(found, key=lambda blob: blob.name) == list(dict.fromkeys(part.blob for part in parts))
    for blob in found:
        own = [part for part in parts if part.blob == blob]
        assert (0, None) == (own[0].start, own[-1].end)
        assert all(one.end == other.start for one, other in pairwise(own))
        assert blob.size == sum(part.size for part in own)


@given(blobs, st.integers(1, 3000))
def test_parts_of_a_blob_are_equal_and_no_larger_than_asked(found: list[StreamBlob], size: int) -> None:
    for blob in found:
        sizes = [part.size for part in cut([blob], size)]
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1


@given(blobs, st.integers(1, 3000))
def test_tasks_hold_all_parts_in_order_and_are_no_larger_than_asked(found: list[StreamBlob], size: int) -> None:
    parts = list(cut(found, size))
    tasks = list(packed(parts, size))
    assert parts == [part for task in tasks for part in task]
    assert all(sum(part.size for part in task) <= size for task in tasks)
    for one, other in pairwise(tasks):
        costs = [max(part.size, size / 128 + 1) for part in (*one, other[0])]
        assert sum(costs) > size


def test_many_tiny_blobs_are_spread_over_tasks() -> None:
    parts = list(cut(StreamBlob(f"s/{number:05d}.avro", 1000) for number in range(1000)))
    assert [128] * 7 + [104] == [len(task) for task in packed(parts)]


def test_gzip_is_not_cut_however_large() -> None:
    blob = StreamBlob("s/1.avro.gz", 1 << 40)
    assert [Part(blob, 0, None)] == list(cut([blob]))
    assert [(Part(blob, 0, None),)] == list(packed([Part(blob, 0, None)]))


def test_a_blob_of_the_asked_size_is_one_part_and_one_byte_more_makes_two() -> None:
    assert 1 == len(list(cut([StreamBlob("s/1.avro", 32 << 20)])))
    assert 2 == len(list(cut([StreamBlob("s/1.avro", (32 << 20) + 1)])))


def test_parts_travel_to_tasks() -> None:
    part = Part(StreamBlob("s/1.avro", 9, 3, "p", 1, 2, '"etag"'), 4, 7)
    assert part == pickle.loads(pickle.dumps(part))  # noqa: S301 - its own bytes

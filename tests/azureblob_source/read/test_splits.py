from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.splits import Split, pack_splits, split_blobs

blobs = st.lists(
    st.builds(StreamBlob, st.sampled_from([f"s/{n:02d}.avro" for n in range(20)]), st.integers(0, 5000)),
    max_size=8,
    unique_by=lambda blob: blob.name,
)


@given(blobs, st.integers(1, 3000))
def test_splits_cover_every_blob_without_gap_in_name_order(found: list[StreamBlob], size: int) -> None:
    splits = list(split_blobs(found, size))
    assert sorted(found, key=lambda blob: blob.name) == list(dict.fromkeys(split.blob for split in splits))
    for blob in found:
        own = [split for split in splits if split.blob == blob]
        assert (0, None) == (own[0].start, own[-1].end)
        assert all(one.end == other.start for one, other in pairwise(own))
        assert blob.size == sum(split.size for split in own)


@given(blobs, st.integers(1, 3000))
def test_splits_of_a_blob_are_equal_and_no_larger_than_asked(found: list[StreamBlob], size: int) -> None:
    for blob in found:
        sizes = [split.size for split in split_blobs([blob], size)]
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1


@given(blobs, st.integers(1, 3000))
def test_partitions_have_all_splits_in_order_and_are_no_larger_than_asked(found: list[StreamBlob], size: int) -> None:
    splits = list(split_blobs(found, size))
    partitions = list(pack_splits(splits, size))
    assert splits == [split for partition in partitions for split in partition]
    assert all(sum(split.size for split in partition) <= size for partition in partitions)
    for one, other in pairwise(partitions):
        costs = [max(split.size, size / 128 + 1) for split in (*one, other[0])]
        assert sum(costs) > size


def test_many_tiny_blobs_are_spread_over_partitions() -> None:
    splits = list(split_blobs(StreamBlob(f"s/{number:05d}.avro", 1000) for number in range(1000)))
    assert [128] * 7 + [104] == [len(partition) for partition in pack_splits(splits)]


def test_gzip_is_not_split_however_large() -> None:
    blob = StreamBlob("s/1.avro.gz", 1 << 40)
    assert [Split(blob, 0, None)] == list(split_blobs([blob]))
    assert [(Split(blob, 0, None),)] == list(pack_splits([Split(blob, 0, None)]))


def test_a_blob_of_the_asked_size_is_one_split_and_one_byte_more_makes_two() -> None:
    assert 1 == len(list(split_blobs([StreamBlob("s/1.avro", 32 << 20)])))
    assert 2 == len(list(split_blobs([StreamBlob("s/1.avro", (32 << 20) + 1)])))


def test_splits_can_be_pickled() -> None:
    split = Split(StreamBlob("s/1.avro", 9, 3, "p", 1, 2, '"etag"'), 4, 7)
    assert split == pickle.loads(pickle.dumps(split))  # noqa: S301 - its own bytes

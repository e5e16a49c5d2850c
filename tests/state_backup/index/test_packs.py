"""Which files share a pack, which packs are worn, and what is downloaded together: for all sizes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state_backup.index import packs
from state_backup.index.dir_diff import LocalFile
from state_backup.index.packs import MOST_SMALL_BLOBS, PACK_BYTES, SMALL_FILE, grouped, runs, without_worn
from state_backup.index.snapshot_index import FileBlob, FileIndex, FileMetadata

if TYPE_CHECKING:
    from state_backup.index.dir_diff import Blobs, Content

KIB = 1 << 10
SIZES = st.one_of(st.integers(1, SMALL_FILE + 1), st.integers(SMALL_FILE - 2, 3 * SMALL_FILE))


def metadata(size: int) -> FileMetadata:
    return FileMetadata(1, 2, size, "owner", "group", "rw-------")


def file_of(number: int, size: int) -> LocalFile:
    return LocalFile(str(number), metadata(size), 0, f"{number:064x}")


def packed(sizes: dict[int, int], pack: str, pack_size: int | None = None) -> dict[Content, Blobs]:
    """Files, by number, of these sizes, one after the other in a pack."""
    whole = sum(sizes.values()) if pack_size is None else pack_size
    stored: dict[Content, Blobs] = {}
    at = 0
    for number, size in sizes.items():
        stored[file_of(number, size).content] = (FileBlob(pack, 0, at, whole),)
        at += size
    return stored


@example([200 * KIB] * 60)
@given(st.lists(SIZES, max_size=60))
def test_small_files_share_packs_and_large_ones_have_a_blob_each(sizes: list[int]) -> None:
    files = [file_of(number, size) for number, size in enumerate(sizes)]
    groups = list(grouped(files))
    assert sorted(files, key=id) == sorted((file for group in groups for file in group), key=id)
    together = [sum(file.metadata.size for file in group) for group in groups if len(group) > 1]
    assert all(size <= PACK_BYTES for size in together)
    assert all(size > PACK_BYTES - SMALL_FILE for size in together[:-1]), "only the last one may be small"
    for group in groups:
        assert len(group) == 1 or all(file.metadata.size < SMALL_FILE for file in group)
    assert sum(len(group) == 1 and group[0].metadata.size < SMALL_FILE for group in groups) <= 1


@pytest.mark.parametrize(("kept", "worn"), [(50 * KIB, False), (50 * KIB - 1, True)])
def test_a_pack_of_which_fewer_than_half_of_the_bytes_are_needed_is_worn(kept: int, worn: bool) -> None:
    stored = packed({1: kept, 2: 100 * KIB - kept}, "pack")
    needed = [file_of(1, kept).content]
    assert ({} if worn else stored) == without_worn(needed, stored)
    assert stored == without_worn(stored, stored)


def test_content_that_two_files_have_is_counted_once() -> None:
    stored = packed({1: 40, 2: 60}, "pack")
    twice = [file_of(1, 40).content] * 2
    assert {} == without_worn(twice, stored)


def test_too_many_small_blobs_are_merged_and_others_stay() -> None:
    """Small are packs below half of the most that one has, and blobs of one small file."""
    others = {
        **packed({1000: PACK_BYTES // 2}, "half"),
        file_of(1001, SMALL_FILE).content: (FileBlob("large", 0),),
    }
    small: dict[Content, Blobs] = {}
    for number in range(MOST_SMALL_BLOBS):
        alone = {file_of(number, 10).content: (FileBlob(f"file {number}", 0),)}
        small |= packed({number: 10}, f"pack {number}") if number % 2 else alone
    stored = others | small
    assert stored == without_worn(stored, stored)
    one_more = stored | packed({500: 10}, "one more")
    assert others == without_worn(one_more, one_more)


@given(st.integers(0, 2**32), st.integers(1, 80))
def test_what_is_merged_is_not_merged_again_if_nothing_changes(seed: int, number: int) -> None:
    draws = Random(seed)
    files = [file_of(each, draws.choice([10, 1000, SMALL_FILE - 1])) for each in range(number)]
    stored: dict[Content, Blobs] = {}
    for each, group in enumerate(grouped(files)):
        stored |= packed({int(file.path): file.metadata.size for file in group}, f"pack {each}")
    assert stored == without_worn(stored, stored)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_every_backup_leaves_few_small_blobs_and_less_waste_than_live_bytes(seed: int, backups: int) -> None:
    """A directory that changes: what the packs of each snapshot waste is less than what its files need of them."""
    draws = Random(seed)
    live: dict[int, int] = {}
    stored: dict[Content, Blobs] = {}
    for backup in range(backups):
        for number in draws.sample(sorted(live), draws.randint(0, len(live))):
            del live[number]
        live |= {draws.getrandbits(60): draws.randint(1, SMALL_FILE - 1) for _ in range(draws.choice([1, 2, 60]))}
        files = [file_of(number, size) for number, size in live.items()]
        stored = without_worn([file.content for file in files], stored)
        new = [file for file in files if file.content not in stored]
        for each, group in enumerate(grouped(new)):
            stored |= packed({int(file.path): file.metadata.size for file in group}, f"pack {backup}-{each}")
        stored = {file.content: stored[file.content] for file in files}
        sizes = {blob.blob_id: blob.pack_size for (blob,) in stored.values()}
        assert sum(sizes.values()) <= 2 * sum(live.values())
        assert sum(2 * size < PACK_BYTES for size in sizes.values()) <= MOST_SMALL_BLOBS + 1


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_runs_have_all_files_and_few_other_bytes(seed: int, number: int) -> None:
    draws = Random(seed)
    contents, pack, at = {}, bytearray(), 0
    files: dict[str, FileIndex] = {}
    for each in range(number):
        at += draws.choice([0, 0, 1000, 600 * KIB])
        pack.extend(bytes(at - len(pack)))
        data = draws.randbytes(draws.choice([1, 1000, 200 * KIB, 1500 * KIB]))
        contents[str(each)] = data
        files[str(each)] = FileIndex(str(each), (FileBlob("pack", 0, at, 0),), metadata(len(data)), 0, "")
        pack += data
        at += len(data)
    files = {
        name: FileIndex(name, (FileBlob("pack", 0, file.blobs[0].pack_offset, len(pack)),), file.metadata, 0, "")
        for name, file in files.items()
    }
    whole = FileIndex("whole", (FileBlob("alone", 0),), metadata(5), 0, "")
    empty = FileIndex("empty", (), metadata(0), 0, "")
    alone, found = runs({"whole": whole, **files, "empty": empty})
    assert {"whole": whole, "empty": empty} == alone
    read = {
        name: bytes(data)
        for run in found
        for name, _, data in run.pieces(bytes(pack[run.start : run.start + run.length]))
    }
    assert contents == read
    assert all(run.length <= PACK_BYTES for run in found)
    gaps = number * packs._WIDEST_GAP
    assert sum(run.length for run in found) <= sum(map(len, contents.values())) + gaps

"""The JSON of a snapshot index: ours, Samza's, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import AzureBlobError, ConfigurationError, CorruptError
from state_backup.index.snapshot_index import (
    DirIndex,
    FileBlob,
    FileIndex,
    FileMetadata,
    SnapshotIndex,
    SnapshotMetadata,
    from_json,
    to_json,
)
from tests.state_backup.index.trees import removed_files

FILE = FileIndex(
    "000012.sst",
    (FileBlob("b1", 0), FileBlob("b2", 40)),
    FileMetadata(0, 1, 42, "u", "g", "rw-r--r--"),
    123,
    "0" * 64,
)
INDEX = SnapshotIndex(
    1_700_000_000_000,
    SnapshotMetadata("1700000000000-123456", "j", "1", "Partition 0", "s"),
    DirIndex(
        "",
        (FILE,),
        (),
        (DirIndex("sub", sub_dirs_present=(DirIndex("empty", permissions="rwx------"),)),),
        (DirIndex("gone", (FILE,)),),
        "rwxr-xr-x",
    ),
    "index/1699999999999-1",
)
SAMZA = """{"creation-time-millis":1700000000000,
 "snapshot-metadata":{"checkpoint-id":"1700000000000-123456","job-name":"j","job-id":"1","task-name":"Partition 0",
   "store-name":"s"},
 "dir-index":{"dir-name":"","files-present":[{"file-name":"000012.sst","blobs":[{"blob-id":"b","offset":0}],
   "file-metadata":{"creation-time-millis":0,"last-modified-time-millis":0,"size":42,"owner":"u","group":"g",
     "permissions":"rw-r--r--"},"checksum":123}],
  "files-removed":[],"sub-dirs-present":[],"sub-dirs-removed":[], "unknown": 1},
 "prev-snapshot-index-blob-id":null}"""


def test_what_is_written_is_read() -> None:
    assert INDEX == from_json(to_json(INDEX), "index/1")
    assert ["000012.sst"] == [path for path, _ in INDEX.root.files()]
    assert [FILE] == list(removed_files(INDEX.root))
    assert {"b1", "b2"} == INDEX.blob_ids()


def test_an_index_that_samza_wrote_is_read() -> None:
    index = from_json(SAMZA.encode(), "index/1")
    ((_, file),) = index.root.files()
    assert ("000012.sst", 42, 123, "") == (file.name, file.metadata.size, file.checksum, file.blake3)
    assert "" == index.root.permissions


def changed(**fields: Any) -> bytes:
    """Samza's document with other values at the first file, the root, or the top."""
    document = json.loads(SAMZA)
    root = document["dir-index"]
    (file,) = root["files-present"]
    for name, value in fields.items():
        place, key = name.split("_", 1)
        {"top": document, "root": root, "file": file, "meta": file["file-metadata"]}[place][key.replace("_", "-")] = (
            value
        )
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"no JSON", "Expecting value"),
        (b"[]", "no attribute"),
        (b"{}", "'snapshot-metadata' is missing"),
        (b"[" * 100_000, "recursion"),
        (changed(file_file_name=".."), "'..' is no plain name, and would leave its directory"),
        (changed(file_file_name="/etc/passwd"), "no plain name"),
        (changed(file_file_name="a/../../b"), "no plain name"),
        (changed(file_file_name="a\0b"), "no plain name"),
        (changed(file_file_name=""), "'' is no text"),
        (changed(file_file_name=7), "'7' is no text"),
        (changed(file_blobs=[]), "the blobs of file 000012.sst do not cover it"),
        (changed(file_blobs=[{"blob-id": "b", "offset": 1}]), "do not cover it"),
        (changed(file_blobs=[{"blob-id": "b", "offset": 0}, {"blob-id": "c", "offset": 42}]), "do not cover it"),
        (changed(file_blobs=[{"blob-id": " ", "offset": 0}]), "' ' is no text"),
        (changed(file_blobs={}), "is no list"),
        (
            changed(file_blobs=[{"blob-id": "b", "offset": 0, "pack-offset": 9, "pack-size": 50}]),
            "beyond the end of its",
        ),
        (changed(file_blobs=[{"blob-id": "b", "offset": 0, "pack-offset": -1, "pack-size": 50}]), "'-1' is no whole"),
        (changed(file_data="AAAA"), "the bytes of file 000012.sst are not those that were backed up"),
        (changed(file_data="AAAA", file_blobs=[]), "are not those that were backed up"),
        (changed(file_data="AAA", file_blobs=[]), "Incorrect padding"),
        (changed(meta_size=-1), "'-1' is no whole number"),
        (changed(meta_size=True), "'True' is no whole number"),
        (changed(meta_size=2**63), "no whole number"),
        (changed(meta_permissions="rwx"), "'rwx' are no permissions"),
        (changed(root_dir_name="other"), "its root directory has a name"),
        (changed(root_files_present=None), "'None' is no list"),
        (changed(root_files_removed=json.loads(SAMZA)["dir-index"]["files-present"]), "both present and removed"),
        (changed(root_files_present=2 * json.loads(SAMZA)["dir-index"]["files-present"]), "is there twice"),
        (changed(top_digest="0"), "its digest is not that of its content"),
        (changed(top_format_version=1), "its digest is not that of its content"),
        (changed(top_prev_snapshot_index_blob_id=""), "'' is no text"),
    ],
)
def test_a_document_that_is_no_sound_index_is_refused_with_the_reason(data: bytes, cause: str) -> None:
    with pytest.raises(
        CorruptError, match="Snapshot index index/1 is damaged: .*Restore an older checkpoint"
    ) as caught:
        from_json(data, "index/1")
    assert cause in str(caught.value)


def test_an_index_of_a_newer_release_asks_for_an_upgrade() -> None:
    with pytest.raises(
        ConfigurationError, match="has format version 4; this release reads up to 3, so it needs a newer release"
    ):
        from_json(changed(top_format_version=4), "index/1")


def test_an_index_has_the_version_that_older_releases_refuse_only_if_it_has_packs_or_bytes() -> None:
    first = INDEX.root.files_present[0]
    inline = replace(first, blobs=(), data=b"12345", metadata=replace(first.metadata, size=5), checksum=crc32(b"12345"))
    packed = replace(INDEX.root.files_present[0], blobs=(FileBlob("pack", 0, 7, 1000),))
    removed = DirIndex("gone", files_removed=(packed,))
    for root, version in [
        (INDEX.root, 1),
        (replace(INDEX.root, files_present=(packed,)), 2),
        (replace(INDEX.root, files_present=(), files_removed=(packed,)), 2),
        (replace(INDEX.root, sub_dirs_removed=(removed,)), 2),
        (replace(INDEX.root, files_present=(inline,)), 3),
        (DirIndex("", sub_dirs_present=(DirIndex("sub", (inline,)), removed)), 3),
    ]:
        index = replace(INDEX, root=root)
        assert version == json.loads(to_json(index))["format-version"]
        assert index == from_json(to_json(index), "index/1")


@given(st.data())
def test_any_changed_byte_of_ours_is_noticed(data: st.DataObject) -> None:
    sound = bytearray(to_json(INDEX))
    at = data.draw(st.integers(0, len(sound) - 1))
    sound[at] ^= data.draw(st.integers(1, 255))
    with suppress(AzureBlobError):
        assert INDEX == from_json(bytes(sound), "index/1")  # such as 1E3 for 1e3: never another index


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(AzureBlobError):
        from_json(data, "index/1")

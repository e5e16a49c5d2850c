"""The JSON of a snapshot index, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.documents.form import sealed
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
SMALL = replace(INDEX, root=DirIndex("", (FILE,)))


def test_what_is_written_is_read() -> None:
    assert INDEX == from_json(to_json(INDEX), "index/1")
    assert ["000012.sst"] == [path for path, _ in INDEX.root.files()]
    assert [FILE] == list(removed_files(INDEX.root))
    assert {"b1", "b2"} == INDEX.blob_ids()


def changed(**fields: Any) -> bytes:
    """The document with other values at the first file, the root, or the top, sealed again; None removes one."""
    document = json.loads(to_json(SMALL))
    document.pop("digest")
    root = document["dir-index"]
    (file,) = root["files-present"]
    for name, value in fields.items():
        place, key = name.split("_", 1)
        at = {"top": document, "root": root, "file": file, "meta": file["file-metadata"]}[place]
        at[key.replace("_", "-")] = value
        if value is None:
            del at[key.replace("_", "-")]
    return sealed(document)


FILES = json.loads(changed())["dir-index"]["files-present"]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"no JSON", "Expecting value"),
        (b"[]", "list indices must be"),
        (b"{}", "'format-version' is missing"),
        (to_json(INDEX).replace(b'"size":42', b'"size":43'), "its digest is not that of its content"),
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
        (changed(root_files_present={}), "'{}' is no list"),
        (changed(root_files_removed=FILES), "both present and removed"),
        (changed(root_files_present=2 * FILES), "is there twice"),
        (changed(file_blake3="a"), "the BLAKE3 of file 000012.sst is malformed"),
        *(
            (changed(**{name: None}), f"{name.split('_', 1)[1].replace('_', '-')!r} is missing")
            for name in ("file_blake3", "file_checksum", "root_permissions", "top_prev_snapshot_index_blob_id")
        ),
        (changed(file_blobs=[{"blob-id": "b", "offset": 0, "pack-size": 50}]), "'pack-offset' is missing"),
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
        ConfigurationError, match="has format version 2; this release reads up to 1, so it needs a newer release"
    ):
        from_json(changed(top_format_version=2), "index/1")


def test_files_in_packs_and_in_the_index_itself_are_read() -> None:
    inline = replace(FILE, blobs=(), data=b"12345", metadata=replace(FILE.metadata, size=5), checksum=crc32(b"12345"))
    packed = replace(FILE, name="packed", blobs=(FileBlob("pack", 0, 7, 1000),))
    for root in (DirIndex("", (packed, inline)), DirIndex("", sub_dirs_removed=(DirIndex("gone", (inline, packed)),))):
        index = replace(INDEX, root=root)
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

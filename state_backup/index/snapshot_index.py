"""The snapshot index: which files a snapshot of a directory has, and in which blobs their bytes are. Pure.

The JSON has the names of Samza's `SnapshotIndex`, and of our own `format-version`, `digest` (SHA-256 of the document
without it), and for each file `blake3`; for each directory `permissions`.
A file in a pack (`packs`) has `pack-offset` and `pack-size` with its blob: where its bytes begin in it, and the bytes
of the whole blob. A small file may have its bytes in the index (`data`, in base64) and no blob.

    {"format-version":1, "creation-time-millis":…, "snapshot-metadata":{"checkpoint-id":"…","job-name":"…",…},
     "dir-index":{"dir-name":"", "files-present":[{"file-name":"000012.sst","blobs":[{"blob-id":"…","offset":0}],
                                                   "file-metadata":{"size":42,"permissions":"rw-r--r--",…},
                                                   "checksum":123,"blake3":"…"}],
                  "files-removed":[…], "sub-dirs-present":[…], "sub-dirs-removed":[…], "permissions":"rwxr-xr-x"},
     "prev-snapshot-index-blob-id":null, "digest":"…"}
"""

from __future__ import annotations

import base64
import re
from dataclasses import astuple, dataclass
from itertools import pairwise
from sys import intern
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from azure_account.documents.form import DocumentFormat, sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

_FORM = DocumentFormat("Snapshot index", 1, "Restore an older checkpoint.")
_BLAKE3 = re.compile("[0-9a-f]{64}")
_PERMISSIONS = re.compile("([r-][w-][x-]){3}")
_LARGEST = 2**63
_LABELS = ("checkpoint-id", "job-name", "job-id", "task-name", "store-name")


@dataclass(frozen=True, slots=True)
class FileBlob:
    """A blob, and the place in the file of the first byte that is taken from it.

    pack_size: bytes of the blob if it is a pack, whose bytes from `pack_offset` on are the file's; 0 otherwise.
    """

    blob_id: str
    offset: int
    pack_offset: int = 0
    pack_size: int = 0


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """Times are in milliseconds since 1970. permissions: like `rwxr-x---`."""

    creation_time_millis: int
    last_modified_time_millis: int
    size: int
    owner: str
    group: str
    permissions: str


@dataclass(frozen=True, slots=True)
class FileIndex:
    """One file. blobs: by offset; none for an empty file. checksum: CRC-32. blake3: hexadecimal.

    data: its bytes, if they are in the index and not in blobs.
    """

    name: str
    blobs: tuple[FileBlob, ...]
    metadata: FileMetadata
    checksum: int
    blake3: str
    data: bytes = b""

    def extents(self) -> Iterator[tuple[FileBlob, int]]:
        """Each blob of the file, and how many bytes it has."""
        ends = pairwise([*(blob.offset for blob in self.blobs), self.metadata.size])
        return ((blob, end - blob.offset) for blob, (_, end) in zip(self.blobs, ends, strict=True))


@dataclass(frozen=True)
class DirIndex:
    """One directory. Its name is empty for the root.

    What was removed is what the snapshot before had; a file that has changed is in both lists.
    """

    name: str
    files_present: tuple[FileIndex, ...] = ()
    files_removed: tuple[FileIndex, ...] = ()
    sub_dirs_present: tuple[DirIndex, ...] = ()
    sub_dirs_removed: tuple[DirIndex, ...] = ()
    permissions: str = "rwx------"

    def files(self, path: str = "") -> Iterator[tuple[str, FileIndex]]:
        """All files of the directory and those below it, each with its path (`sub/000012.sst`)."""
        for file in self.files_present:
            yield path + file.name, file
        for directory in self.sub_dirs_present:
            yield from directory.files(f"{path}{directory.name}/")


@dataclass(frozen=True)
class SnapshotMetadata:
    """Which checkpoint, job, task and store the snapshot is of."""

    checkpoint_id: str
    job_name: str
    job_id: str
    task_name: str
    store_name: str


@dataclass(frozen=True)
class SnapshotIndex:
    """A snapshot of a directory. previous: blob of the index of the snapshot before; None for a first one."""

    creation_time_millis: int
    metadata: SnapshotMetadata
    root: DirIndex
    previous: str | None = None

    def blob_sizes(self) -> Iterator[tuple[str, int]]:
        """The blobs that hold the snapshot's files, with the bytes that each has."""
        for _, file in self.root.files():
            yield from ((blob.blob_id, blob.pack_size or size) for blob, size in file.extents())

    def blob_ids(self) -> frozenset[str]:
        """The blobs that hold the snapshot's files."""
        return frozenset(blob.blob_id for _, file in self.root.files() for blob in file.blobs)


def to_json(index: SnapshotIndex) -> bytes:
    """As it is stored."""
    fields = {
        "format-version": _FORM.format_version,
        "creation-time-millis": index.creation_time_millis,
        "snapshot-metadata": dict(zip(_LABELS, astuple(index.metadata), strict=True)),
        "dir-index": _dir_fields(index.root),
        "prev-snapshot-index-blob-id": index.previous,
    }
    return sealed(fields)


def from_json(data: bytes, blob: str) -> SnapshotIndex:
    """The inverse. `ConfigurationError` for an index of a newer release, `CorruptError` for a damaged one.

    File names that are no plain names (`..`, `a/b`) are refused, so no path leaves the directory that is restored.
    """
    return _FORM.read(data, blob, _index)


def _index(fields: Mapping[str, Any]) -> SnapshotIndex:
    metadata = fields["snapshot-metadata"]
    root = _dir(fields["dir-index"])
    _require(root.name == "", "its root directory has a name")
    previous = fields["prev-snapshot-index-blob-id"]
    return SnapshotIndex(
        _whole(fields["creation-time-millis"]),
        SnapshotMetadata(*(_text(metadata[name]) for name in _LABELS)),
        root,
        None if previous is None else _text(previous),
    )


def _dir(fields: Mapping[str, Any]) -> DirIndex:
    directory = DirIndex(
        fields["dir-name"] and _name(fields["dir-name"]),
        _all(_file, fields["files-present"]),
        _all(_file, fields["files-removed"]),
        _all(_sub_dir, fields["sub-dirs-present"]),
        _all(_sub_dir, fields["sub-dirs-removed"]),
        _permissions(fields["permissions"]),
    )
    names = [file.name for file in directory.files_present] + [each.name for each in directory.sub_dirs_present]
    _require(len(names) == len(set(names)), f"a name is there twice in directory {directory.name!r}")
    both = set(directory.files_present) & set(directory.files_removed)
    _require(not both, f"files are both present and removed in directory {directory.name!r}")
    return directory


def _sub_dir(fields: Mapping[str, Any]) -> DirIndex:
    _name(fields["dir-name"])
    return _dir(fields)


def _file(fields: Mapping[str, Any]) -> FileIndex:
    name, metadata = _name(fields["file-name"]), fields["file-metadata"]
    _require(bool(_BLAKE3.fullmatch(fields["blake3"])), f"the BLAKE3 of file {name} is malformed")
    file = FileIndex(
        name,
        _all(_blob, fields["blobs"]),
        FileMetadata(
            _whole(metadata["creation-time-millis"]),
            _whole(metadata["last-modified-time-millis"]),
            _whole(metadata["size"]),
            intern(str(metadata["owner"])),
            intern(str(metadata["group"])),
            _permissions(metadata["permissions"]),
        ),
        _whole(fields["checksum"]),
        fields["blake3"],
        base64.b64decode(fields.get("data", ""), validate=True),
    )
    if file.data:
        sound = not file.blobs and len(file.data) == file.metadata.size and crc32(file.data) == file.checksum
        _require(sound, f"the bytes of file {name} are not those that were backed up")
        return file
    offsets = [blob.offset for blob in file.blobs]
    covered = offsets[:1] == [0] and all(one < other for one, other in pairwise([*offsets, file.metadata.size]))
    _require(covered if file.metadata.size else not offsets, f"the blobs of file {name} do not cover it")
    in_packs = all(not blob.pack_size or blob.pack_offset + size <= blob.pack_size for blob, size in file.extents())
    _require(in_packs, f"file {name} goes beyond the end of its pack")
    return file


def _blob(fields: Mapping[str, Any]) -> FileBlob:
    pack = (_whole(fields["pack-offset"]), _whole(fields["pack-size"])) if "pack-size" in fields else (0, 0)
    return FileBlob(_text(fields["blob-id"]), _whole(fields["offset"]), *pack)


def _all(of: Callable[[Mapping[str, Any]], T], items: Sequence[Mapping[str, Any]]) -> tuple[T, ...]:
    _require(isinstance(items, list), f"{str(items)[:40]!r} is no list")
    return tuple(map(of, items))


def _name(value: Any) -> str:
    _require(isinstance(value, str) and value != "", f"{str(value)[:40]!r} is no text")
    name = str(value)
    plain = name not in {".", ".."} and not set(name) & {"/", "\0"}
    _require(plain, f"{name[:80]!r} is no plain name, and would leave its directory")
    return name


def _text(value: Any) -> str:
    _require(isinstance(value, str) and bool(value.strip()), f"{str(value)[:40]!r} is no text")
    return str(value)


def _whole(value: Any) -> int:
    _require(type(value) is int and 0 <= value < _LARGEST, f"{str(value)[:40]!r} is no whole number of at least 0")
    return int(value)


def _permissions(value: Any) -> str:
    _require(bool(_PERMISSIONS.fullmatch(value)), f"{str(value)[:40]!r} are no permissions, which are like rwxr-x---")
    return intern(str(value))


def _require(holds: bool, cause: str) -> None:
    if not holds:
        raise ValueError(cause)


def _dir_fields(directory: DirIndex) -> dict[str, Any]:
    return {
        "dir-name": directory.name,
        "files-present": [_file_fields(file) for file in directory.files_present],
        "files-removed": [_file_fields(file) for file in directory.files_removed],
        "sub-dirs-present": [_dir_fields(each) for each in directory.sub_dirs_present],
        "sub-dirs-removed": [_dir_fields(each) for each in directory.sub_dirs_removed],
        "permissions": directory.permissions,
    }


def _file_fields(file: FileIndex) -> dict[str, Any]:
    metadata = file.metadata
    return {
        "file-name": file.name,
        "blobs": [_blob_fields(blob) for blob in file.blobs],
        "file-metadata": {
            "creation-time-millis": metadata.creation_time_millis,
            "last-modified-time-millis": metadata.last_modified_time_millis,
            "size": metadata.size,
            "owner": metadata.owner,
            "group": metadata.group,
            "permissions": metadata.permissions,
        },
        "checksum": file.checksum,
        "blake3": file.blake3,
        **({"data": base64.b64encode(file.data).decode("ascii")} if file.data else {}),
    }


def _blob_fields(blob: FileBlob) -> dict[str, Any]:
    pack = {"pack-offset": blob.pack_offset, "pack-size": blob.pack_size} if blob.pack_size else {}
    return {"blob-id": blob.blob_id, "offset": blob.offset, **pack}

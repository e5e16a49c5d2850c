"""What a backup has to upload, and the index that follows: a directory compared with the snapshot before. Pure.

A file is its content. Name and size do not identify it: two stores that are restored from one base, and then written
to, have files of the same name and size with other bytes. So content that the snapshot before has, under whatever name,
is not uploaded again; content that differs is, under whatever name.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from state_backup.index.snapshot_index import DirIndex, FileBlob, FileIndex, FileMetadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Content: TypeAlias = tuple[str, int]
"""BLAKE3 and size."""
Blobs: TypeAlias = tuple[FileBlob, ...]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on disk, as it was read. path: from the root of the directory. checksum: CRC-32."""

    path: str
    metadata: FileMetadata
    checksum: int
    blake3: str

    @property
    def name(self) -> str:
        """The last level of the path."""
        return self.path.rpartition("/")[2]

    @property
    def content(self) -> Content:
        """What the file is."""
        return self.blake3, self.metadata.size


@dataclass(frozen=True)
class LocalDir:
    """A directory on disk."""

    name: str
    files: tuple[LocalFile, ...]
    sub_dirs: tuple[LocalDir, ...]
    permissions: str

    def all_files(self) -> Iterator[LocalFile]:
        """All files of the directory and those below it."""
        yield from self.files
        for directory in self.sub_dirs:
            yield from directory.all_files()


def is_unchanged(local: LocalDir, previous: DirIndex) -> bool:
    """Whether a directory is what the snapshot before has: its index says it still."""
    return (
        (local.name, local.permissions, len(local.files), len(local.sub_dirs))
        == (previous.name, previous.permissions, len(previous.files_present), len(previous.sub_dirs_present))
        and all(map(_is_same, local.files, previous.files_present))
        and all(map(is_unchanged, local.sub_dirs, previous.sub_dirs_present))
    )


def _is_same(file: LocalFile, before: FileIndex) -> bool:
    """All but the creation time: Linux has the last change of the inode for it, and a new hard link changes that."""
    now, then = file.metadata, before.metadata
    return (
        (file.blake3, file.checksum, file.name) == (before.blake3, before.checksum, before.name)
        and (now.size, now.last_modified_time_millis) == (then.size, then.last_modified_time_millis)
        and (now.permissions, now.owner, now.group) == (then.permissions, then.owner, then.group)
    )


def stored_content(previous: DirIndex | None, lost: Collection[str] = frozenset()) -> dict[Content, Blobs]:
    """The content that the snapshot before has in blobs, and these; without what needs blobs that are lost."""
    return {
        (file.blake3, file.metadata.size): file.blobs
        for _, file in (() if previous is None else previous.files())
        if not file.data and not any(blob.blob_id in lost for blob in file.blobs)
    }


def to_upload(local: LocalDir, stored: Mapping[Content, Blobs]) -> tuple[LocalFile, ...]:
    """The files whose content is to be uploaded: each content once, empty files never."""
    new = {file.content: file for file in local.all_files() if file.metadata.size and file.content not in stored}
    return tuple(new.values())


def next_index(
    local: LocalDir,
    stored: Mapping[Content, Blobs],
    previous: DirIndex | None,
    inline: Mapping[Content, bytes] = MappingProxyType({}),
) -> DirIndex:
    """The index of the directory, when all of its content is stored.

    stored: content in blobs. previous: the index before. inline: content whose bytes are in the index itself.

    What the snapshot before has and this one does not is listed as removed, unless its blobs are in use still. The
    entry of a file that has not changed is the object that the snapshot before has: a writer keeps several snapshots.
    """
    files = {
        content: _Bytes((), inline[content]) if content in inline else _Bytes(stored[content], b"")
        for content in (file.content for file in local.all_files() if file.metadata.size)
    }
    used = {blob.blob_id for each in files.values() for blob in each.blobs}
    return _next(local, files, previous or DirIndex(local.name), used)


class _Bytes(NamedTuple):
    blobs: Blobs
    data: bytes


def _next(local: LocalDir, stored: Mapping[Content, _Bytes], previous: DirIndex, used: set[str]) -> DirIndex:
    before = {directory.name: directory for directory in previous.sub_dirs_present}
    same = {file.name: file for file in previous.files_present}
    now = {directory.name for directory in local.sub_dirs}
    return DirIndex(
        local.name,
        tuple(_indexed(each, stored, same.get(each.name)) for each in local.files),
        tuple(file for file in previous.files_present if not _in_use(file, used)),
        tuple(_next(each, stored, before.get(each.name, DirIndex(each.name)), used) for each in local.sub_dirs),
        tuple(_without(directory, used) for name, directory in before.items() if name not in now),
        local.permissions,
    )


def _indexed(file: LocalFile, stored: Mapping[Content, _Bytes], before: FileIndex | None) -> FileIndex:
    where = stored[file.content] if file.metadata.size else _Bytes((), b"")
    if before is not None and (before.blobs, before.data) == where and _is_same(file, before):
        return before
    return FileIndex(file.name, where.blobs, file.metadata, file.checksum, file.blake3, where.data)


def _without(directory: DirIndex, used: set[str]) -> DirIndex:
    return DirIndex(
        directory.name,
        tuple(file for file in directory.files_present if not _in_use(file, used)),
        (),
        tuple(_without(each, used) for each in directory.sub_dirs_present),
        (),
        directory.permissions,
    )


def _in_use(file: FileIndex, used: set[str]) -> bool:
    """Whether nothing is to be deleted for this file: all of its blobs are in use, or it has none."""
    return all(blob.blob_id in used for blob in file.blobs)

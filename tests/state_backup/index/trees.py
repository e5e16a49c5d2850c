"""Directories as dicts, `{"a.sst": b"…", "sub": {…}}`, and hypothesis strategies that draw them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeAlias

from blake3 import blake3 as new_blake3
from hypothesis import strategies as st

from state_backup.index.dir_diff import LocalDir, LocalFile
from state_backup.index.snapshot_index import FileBlob, FileMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from state_backup.index.dir_diff import Blobs, Content
    from state_backup.index.snapshot_index import DirIndex, FileIndex

Tree: TypeAlias = "Mapping[str, bytes | Tree]"

CONTENTS = st.binary(max_size=3)
"""Short, so that files often have the same content, or another of the same size."""
NAMES = st.sampled_from(["a", "b", "000017.sst", "CURRENT", "ünicode", "with space"])
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(NAMES, CONTENTS, max_size=4),
    lambda below: st.dictionaries(NAMES, st.one_of(CONTENTS, below), max_size=4),
    max_leaves=8,
)


def local(tree: Tree, name: str = "", path: str = "") -> LocalDir:
    """The directory as a scan of the disk finds it."""
    files = [_file(path + each, content) for each, content in tree.items() if isinstance(content, bytes)]
    dirs = [local(below, each, f"{path}{each}/") for each, below in tree.items() if not isinstance(below, bytes)]
    return LocalDir(name, tuple(files), tuple(dirs), "rwxr-x---")


def _file(path: str, content: bytes) -> LocalFile:
    metadata = FileMetadata(1, 2, len(content), "owner", "group", "rw-r-----")
    return LocalFile(path, metadata, zlib.crc32(content), new_blake3(content).hexdigest())


def contents(tree: Tree) -> Iterator[bytes]:
    """The contents of all files."""
    for each in tree.values():
        if isinstance(each, bytes):
            yield each
        else:
            yield from contents(each)


def uploaded(files: tuple[LocalFile, ...], round_: int) -> dict[Content, Blobs]:
    """Blobs for these files, with names that no other round has."""
    return {file.content: (FileBlob(f"blob-{round_}-{number}", 0),) for number, file in enumerate(files)}


def removed_files(directory: DirIndex) -> Iterator[FileIndex]:
    """All files that the snapshot before had and this one does not."""
    yield from directory.files_removed
    for each in directory.sub_dirs_present:
        yield from removed_files(each)
    for each in directory.sub_dirs_removed:
        yield from (file for _, file in each.files())

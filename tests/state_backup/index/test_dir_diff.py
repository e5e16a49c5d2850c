"""What is uploaded, and what the index says, for directories that change."""

from __future__ import annotations

from dataclasses import replace

from blake3 import blake3 as new_blake3
from hypothesis import given
from hypothesis import strategies as st

from state_backup.index.dir_diff import LocalDir, next_index, stored_content, to_upload
from state_backup.index.snapshot_index import DirIndex, FileIndex, SnapshotIndex, SnapshotMetadata, from_json, to_json
from tests.state_backup.index.trees import TREES, Tree, contents, local, removed_files, uploaded

METADATA = SnapshotMetadata("1-1", "job", "1", "task", "store")


def backup(tree: Tree, previous: DirIndex | None, round_: int = 0) -> tuple[DirIndex, list[str]]:
    """The next index, and the paths that are uploaded."""
    directory = local(tree)
    stored = stored_content(previous)
    files = to_upload(directory, stored)
    return next_index(directory, {**stored, **uploaded(files, round_)}, previous), [file.path for file in files]


def blob_ids(files: list[FileIndex]) -> set[str]:
    return {blob.blob_id for file in files for blob in file.blobs}


def test_only_what_is_new_is_uploaded() -> None:
    first, paths = backup({"1.sst": b"one", "2.sst": b"two", "CURRENT": b"1"}, None)
    assert ["1.sst", "2.sst", "CURRENT"] == paths
    second, paths = backup({"2.sst": b"two", "3.sst": b"three", "CURRENT": b"2"}, first, 1)

    assert ["3.sst", "CURRENT"] == paths
    assert ["2.sst", "3.sst", "CURRENT"] == [file.name for file in second.files_present]
    assert ["1.sst", "CURRENT"] == [file.name for file in second.files_removed]


def test_a_file_of_the_same_name_and_size_with_other_bytes_is_uploaded() -> None:
    first, _ = backup({"000017.sst": b"this"}, None)
    second, paths = backup({"000017.sst": b"that"}, first, 1)

    assert ["000017.sst"] == paths
    assert [file.blobs for file in first.files_present] == [file.blobs for file in second.files_removed]


def test_a_file_that_has_moved_is_not_uploaded_and_its_blob_is_not_removed() -> None:
    first, _ = backup({"a": b"bytes", "old": {"b": b"more", "c": b"gone"}}, None)
    second, paths = backup({"new": {"a": b"bytes"}, "b": b"more"}, first, 1)

    assert [] == paths
    assert ["c"] == [file.name for file in removed_files(second)]


def test_equal_files_share_a_blob_and_empty_ones_have_none() -> None:
    index, paths = backup({"a": b"same", "b": b"same", "empty": b""}, None)
    assert 1 == len(paths)
    assert [1, 1, 0] == [len(file.blobs) for file in index.files_present]
    assert 1 == len(blob_ids(list(index.files_present)))


def test_other_permissions_are_taken_over_without_an_upload() -> None:
    first, _ = backup({"a": b"bytes"}, None)
    changed = local({"a": b"bytes"})
    (file,) = changed.files
    metadata = replace(file.metadata, permissions="rwx------")
    changed = replace(changed, files=(replace(file, metadata=metadata),))
    second = next_index(changed, stored_content(first), first)

    assert () == to_upload(changed, stored_content(first))
    assert ["rwx------"] == [each.metadata.permissions for each in second.files_present]
    assert () == second.files_removed


def _digests(tree: Tree) -> set[str]:
    return {new_blake3(content).hexdigest() for content in contents(tree) if content}


@given(st.lists(TREES, min_size=1, max_size=5))
def test_each_index_has_the_bytes_of_its_directory_and_removes_what_only_the_one_before_has(trees: list[Tree]) -> None:
    blobs: dict[str, str] = {}
    previous: DirIndex | None = None
    for round_, tree in enumerate(trees):
        directory = local(tree)
        stored = stored_content(previous)
        files = to_upload(directory, stored)
        new = uploaded(files, round_)
        blobs |= {blob.blob_id: blake3 for (blake3, _), (blob,) in new.items()}
        index = next_index(directory, {**stored, **new}, previous)

        for path, file in index.files():
            assert [file.blake3] * len(file.blobs) == [blobs[blob.blob_id] for blob in file.blobs], path
        assert sorted(each.path for each in directory.all_files()) == sorted(path for path, _ in index.files())
        before = set() if previous is None else blob_ids([file for _, file in previous.files()])
        now = blob_ids([file for _, file in index.files()])
        assert before - now == blob_ids(list(removed_files(index)))
        known = set() if previous is None else {file.blake3 for _, file in previous.files()}
        assert sorted(_digests(tree) - known) == sorted(file.blake3 for file in files)
        snapshot = SnapshotIndex(1, METADATA, index)
        assert snapshot == from_json(to_json(snapshot), "index")
        previous = index


def test_an_empty_directory_stays_a_directory() -> None:
    index, _ = backup({"empty": {}, "full": {"a": b"1"}}, None)
    assert ["empty", "full"] == [each.name for each in index.sub_dirs_present]
    second, _ = backup({"full": {"a": b"1"}}, index, 1)
    assert ["empty"] == [each.name for each in second.sub_dirs_removed]
    assert LocalDir("", (), (), "rwxr-x---") == local({})


def test_the_entry_of_an_unchanged_file_is_the_object_of_the_snapshot_before_though_it_is_a_new_hard_link() -> None:
    tree: Tree = {"a": b"bytes", "sub": {"b": b"more"}}
    first, _ = backup(tree, None)
    later = _created(local({**tree, "c": b"new"}), 99)
    stored = stored_content(first)
    second = next_index(later, {**stored, **uploaded(to_upload(later, stored), 1)}, first)
    entries = dict(second.files())
    for path, file in first.files():
        assert file is entries[path]
    assert 99 == entries["c"].metadata.creation_time_millis


def _created(directory: LocalDir, millis: int) -> LocalDir:
    files = tuple(
        replace(file, metadata=replace(file.metadata, creation_time_millis=millis)) for file in directory.files
    )
    return replace(directory, files=files, sub_dirs=tuple(_created(each, millis) for each in directory.sub_dirs))

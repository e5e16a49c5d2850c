"""One attempt of a backup: compare each store with the checkpoint before, upload what is new, then its index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.documents.form import readable
from foundation.errors import ConfigurationError
from state_backup.backup.upload import FileUploader, read_file
from state_backup.index.dir_diff import is_unchanged, next_index, stored_content, to_upload
from state_backup.index.packs import without_worn
from state_backup.index.snapshot_index import DirIndex, SnapshotIndex, SnapshotMetadata, from_json, to_json
from state_backup.local.scan import ChecksumCache, scan
from state_backup.record.record import Checkpoint, CheckpointRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from foundation.report import ProgressCallbacks
    from state_backup.backup.settings import TaskIdentity, WriterSettings
    from state_backup.index.checkpoint_id import CheckpointId
    from state_backup.index.dir_diff import Blobs, Content, LocalDir, LocalFile
    from state_backup.metrics import StateMetrics
    from state_backup.record.store import StateStorage


@dataclass(frozen=True)
class BackedUpStore:
    """What a backup did for one store: files and bytes that it uploaded, and those that it did not have to."""

    uploaded_files: int
    uploaded_bytes: int
    retained_files: int
    retained_bytes: int


@dataclass(frozen=True)
class AttemptOptions:
    """How a backup is made, and whom it reports to.

    keep: ids of checkpoints that stay beside the newest ones. may_be_empty: stores that may have lost all their files.
    """

    report: ProgressCallbacks
    trust_times: bool
    keep: frozenset[str]
    may_be_empty: frozenset[str]


@dataclass(frozen=True)
class KnownContent:
    """What a backup is compared with.

    checkpoints: that can be restored, newest first. indexes: their snapshot indexes, by blob, as far as they could be
    read. lost: blobs that no new checkpoint uses. uploaded: what an attempt before has uploaded, with its blobs.
    read_files: the files that backups have read before, by store; the attempt adds to them.
    """

    checkpoints: Sequence[Checkpoint]
    indexes: Mapping[str, SnapshotIndex]
    lost: Collection[str]
    uploaded: Mapping[Content, Blobs]
    read_files: dict[str, ChecksumCache]


class BackupAttempt:
    """The blobs of one checkpoint, which no record names yet."""

    def __init__(
        self,
        storage: StateStorage,
        owner: TaskIdentity,
        id_: CheckpointId,
        known: KnownContent,
        options: AttemptOptions,
    ) -> None:
        self._storage, self._owner, self._id, self._known, self._options = storage, owner, id_, known, options
        self.base: Checkpoint | None = known.checkpoints[0] if known.checkpoints else None
        """The checkpoint that it is compared with."""
        self.keep: frozenset[str] = options.keep
        self.indexes: dict[str, tuple[str, SnapshotIndex]] = {}
        """The snapshot index of each store, with its blob."""
        self.blobs: set[str] = {blob.blob_id for blobs in known.uploaded.values() for blob in blobs}
        """The names of all blobs that it may have put."""
        self.without_tags: set[str] = set()
        """Those that got no TTL."""
        self.tags_refused: bool = False
        """Whether the service has refused tags."""
        self.content: dict[Content, Blobs] = dict(known.uploaded)
        """Of the files that it has uploaded, with their blobs."""
        self.stores: dict[str, BackedUpStore] = {}

    def checkpoint(self, offsets: Mapping[str, str]) -> Checkpoint:
        """What a record names of it."""
        return Checkpoint(self._id, {store: blob for store, (blob, _) in self.indexes.items()}, dict(offsets))

    def check_readable(self, stores: Collection[str], offsets: Mapping[str, str], epoch: int) -> None:
        """`ConfigurationError` if a restore could not read what will be committed: nothing is uploaded yet."""
        blob = self._storage.names.index("new")
        for store in stores:
            readable(self._index(store, DirIndex(""), None), blob, to_json, from_json)
        checkpoint = Checkpoint(self._id, dict.fromkeys(stores, blob), offsets)
        self._storage.records.check_readable(CheckpointRecord(epoch, "", (checkpoint,)))

    def upload(
        self, stores: Mapping[str, Path], settings: WriterSettings, metrics: StateMetrics, *, tags_refused: bool
    ) -> None:
        """Upload what is new, and the indexes. A store that has not changed keeps the index that it has.

        stores: the directories. tags_refused: whether the service is known to refuse tags.
        """
        refused = tags_refused or not settings.ttl
        uploader = FileUploader(
            self._storage.container, self._new_file, threads=self._storage.threads, tags_refused=refused
        )
        try:
            with uploader:
                for store, directory in stores.items():
                    self.indexes[store] = self._upload_store(store, directory, uploader, settings.inline_bytes, metrics)
        finally:
            self.without_tags |= uploader.without_tags
            self.tags_refused = uploader.tags_refused and settings.ttl

    def _upload_store(
        self, store: str, directory: Path, uploader: FileUploader, inline_bytes: int, metrics: StateMetrics
    ) -> tuple[str, SnapshotIndex]:
        previous = None if self.base is None else self.base.indexes.get(store)
        before = None if previous is None else self._known.indexes.get(previous)
        root_before = None if before is None else before.root
        report = self._options.report
        with metrics.measured("dirDiffSeconds", store=store):
            local = self._scanned(store, directory)
            if previous is not None and before is not None and self._is_unchanged(local, previous, before):
                self.stores[store] = _backed_up(local, ())
                report.planned(0, 0)
                return previous, before
            stored = {**self.content, **stored_content(root_before, self._known.lost)}
            stored = without_worn((file.content for file in local.all_files()), stored)
            files = to_upload(local, stored)
        done = self.stores[store] = _backed_up(local, files)
        report.planned(done.uploaded_files, done.uploaded_bytes)
        inline: dict[Content, bytes] = {}
        with metrics.measured("uploadSeconds", store=store):
            if sum(file.metadata.size for file in files) <= inline_bytes:
                inline = {file.content: read_file(directory, file) for file in files}
                uploaded: dict[Content, Blobs] = {}
            else:
                uploaded = uploader.files(directory, files, report.progress)
        self.content |= uploaded
        metrics.count("filesUploaded", done.uploaded_files, store=store)
        metrics.count("bytesUploaded", done.uploaded_bytes, store=store)
        root = next_index(local, stored | uploaded, root_before, inline)
        index, name = self._index(store, root, previous), self._name(self._storage.names.index)
        uploader.put(name, readable(index, name, to_json, from_json))
        return name, index

    def _is_unchanged(self, local: LocalDir, previous: str, before: SnapshotIndex) -> bool:
        lost = self._known.lost
        gone = lost and (previous in lost or not before.blob_ids().isdisjoint(lost))
        return not gone and is_unchanged(local, before.root)

    def _scanned(self, store: str, directory: Path) -> LocalDir:
        trusted = self._options.trust_times
        read_before = self._known.read_files.setdefault(store, ChecksumCache()) if trusted else None
        local = scan(directory, self._storage.threads, read_before)
        if store not in self._options.may_be_empty:
            self._check_not_emptied(store, directory, local)
        return local

    def _check_not_emptied(self, store: str, directory: Path, local: LocalDir) -> None:
        """`ConfigurationError` for no files where the last checkpoint of the store had some: all of them would go."""
        known = self._known
        last = next((each for each in known.checkpoints if each.indexes.get(store) in known.indexes), None)
        if last is None or any(True for _ in local.all_files()):
            return
        files = sum(1 for _ in known.indexes[last.indexes[store]].root.files())
        if files:
            cause = f"it has no files, and store {store} had {files:,} at checkpoint {last.id}"
            step = "See that its disk is mounted; if all was deleted on purpose, give MayBeEmpty(directory)"
            step += ", or --may-be-empty."
            raise ConfigurationError("back up directory", str(directory), cause, step)

    def _index(self, store: str, root: DirIndex, previous: str | None) -> SnapshotIndex:
        owner = self._owner
        metadata = SnapshotMetadata(str(self._id), owner.job_name, owner.job_id, owner.task_name, store)
        return SnapshotIndex(self._storage.clock.now_ns() // 1_000_000, metadata, root, previous)

    def _new_file(self) -> str:
        return self._name(self._storage.names.file)

    def _name(self, of: Callable[[str], str]) -> str:
        """A name that no blob has had."""
        name = of(self._storage.new_id())
        self.blobs.add(name)
        return name


def _backed_up(local: LocalDir, new: Sequence[LocalFile]) -> BackedUpStore:
    sizes = [file.metadata.size for file in local.all_files()]
    uploaded = sum(file.metadata.size for file in new)
    return BackedUpStore(len(new), uploaded, len(sizes) - len(new), sum(sizes) - uploaded)

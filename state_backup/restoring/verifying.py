"""Verify a state: whether the blobs of its checkpoints are there and hold what was backed up. Changes nothing.

The sizes come from one listing. `deep` downloads each file once, whichever checkpoints need it, in pieces, and files
that share a pack together: at most `threads` pieces or packs are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from blake3 import blake3 as new_blake3

from azure_account.documents.document import FETCHES
from azure_account.location import Location
from foundation.arguments import Count, checked
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import concurrent_map
from foundation.report import ProgressCallbacks
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.index.packs import runs
from state_backup.record.store import open_location, read_index, record_store
from state_backup.restoring.download import fetch_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties
    from state_backup.index.packs import PackRange
    from state_backup.index.snapshot_index import FileBlob, FileIndex, SnapshotIndex
    from state_backup.record.names import StateNames
    from state_backup.record.record import Checkpoint, CheckpointRecord

_PIECE_BYTES = 8 << 20
_GONE = "it is gone"
_OTHER_BYTES = (
    "its bytes have another checksum than the file had: overwrite the blob with an empty one, and the first backup of "
    "the next writer that opens the state uploads the file again, if its directory has it"
)
"""Not "delete it": what is deleted is undeleted, if the account has soft delete, and is as damaged as before."""
_OTHER_BYTES_IN_PACK = (
    "its bytes have another checksum than the file had. If the newest checkpoint is whole, leave the blob as it is. "
    "Else overwrite it with an empty one: all files of this pack are lost for older checkpoints, and the first backup "
    "of the next writer that opens the state uploads again what its directory has"
)
"""No checkpoint that is whole is lost by that: if the newest needs the damaged file, so do all that need the pack."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a blob. path: of the file in its store; empty for the store's snapshot index."""

    store: str
    path: str
    blob: str
    cause: str


@dataclass(frozen=True)
class VerificationResult:
    """A checkpoint, and all its faults. dropped: newer backups have dropped it meanwhile, so faults say nothing."""

    checkpoint: Checkpoint
    files: int
    bytes: int
    faults: tuple[Fault, ...]
    dropped: bool = False

    @property
    def whole(self) -> bool:
        """Whether it can be restored, as far as was looked."""
        return not self.faults and not self.dropped


_Content: TypeAlias = "tuple[tuple[FileBlob, ...], int, str]"
"""What identifies bytes that are downloaded once: blobs, size, BLAKE3."""


@checked
def verify(
    where: Location,
    *,
    checkpoint_id: CheckpointId | str | None = None,
    deep: bool = False,
    threads: Count = 16,
    report: ProgressCallbacks = ProgressCallbacks(),
) -> tuple[VerificationResult, ...]:
    """Verify the kept checkpoints of a state, newest first, or one. Finds all faults.

    where: the state.
    checkpoint_id: one checkpoint; by default all.
    deep: download the files and compare checksums; else blobs are there with the right sizes.
    threads: requests at a time.
    report: gets the files to download, and each piece that was.

    `NotFoundError` if there is no record or no such checkpoint, `CorruptError` if the record is damaged.
    """
    container, names = open_location(where)
    record = _read(container, names)
    chosen = [each for each in record.checkpoints if checkpoint_id is None or str(checkpoint_id) == str(each.id)]
    if checkpoint_id is not None and not chosen:
        have = ", ".join(str(each.id) for each in record.checkpoints) or "none"
        cause = f"it has no checkpoint {checkpoint_id}; there are: {have}"
        raise NotFoundError("verify", f"state {names.state}", cause, "Choose one of these.")
    looked = _CheckpointAudit(container, names, record, threads)
    if deep:
        looked.download(chosen, report)
    verified = [looked.at(checkpoint) for checkpoint in chosen]
    if any(each.faults for each in verified):
        kept = _read(container, names).checkpoints
        verified = [each if each.checkpoint in kept else replace(each, dropped=True) for each in verified]
    return tuple(verified)


def _read(container: BlobContainer, names: StateNames) -> CheckpointRecord:
    stored = record_store(container, names).read()
    if stored is None:
        step = "Check the name; `ls` shows the states. A restore undeletes a deleted record."
        raise NotFoundError("verify", f"state {names.state}", "it has no checkpoint record", step)
    return stored.document


class _CheckpointAudit:
    def __init__(self, container: BlobContainer, names: StateNames, record: CheckpointRecord, threads: int) -> None:
        self._container, self._names, self._threads = container, names, threads
        self._condemned = frozenset(record.condemned)
        self._listed = {blob.name: blob for prefix in names.prefixes for blob in container.list(prefix)}
        blobs = sorted({blob for checkpoint in record.checkpoints for blob in checkpoint.indexes.values()})
        self._indexes = dict(zip(blobs, concurrent_map(self._index, blobs, threads, after_error="wait"), strict=True))
        self._damaged: dict[_Content, str] = {}

    def at(self, checkpoint: Checkpoint) -> VerificationResult:
        """What a checkpoint is like."""
        faults: list[Fault] = []
        files = bytes_ = 0
        for store, blob in sorted(checkpoint.indexes.items()):
            index = self._indexes[blob]
            if isinstance(index, str):
                faults.append(Fault(store, "", blob, index))
                continue
            if blob in self._condemned:
                faults.append(Fault(store, "", blob, "it is condemned: the next clean-up deletes it"))
            for path, file in index.root.files():
                files, bytes_ = files + 1, bytes_ + file.metadata.size
                faults += self._faults(store, path, file)
        return VerificationResult(checkpoint, files, bytes_, tuple(faults))

    def download(self, checkpoints: Sequence[Checkpoint], report: ProgressCallbacks) -> None:
        """Download the files of these checkpoints that are there, and compare their checksums."""
        indexes = {blob for each in checkpoints for blob in each.indexes.values()}
        found = [index for blob in sorted(indexes) if not isinstance(index := self._indexes[blob], str)]
        files = {_content(file): file for index in found for _, file in index.root.files() if file.blobs}
        there = {content: file for content, file in files.items() if not any(self._faults("", "", file))}
        report.planned(len(there), sum(file.metadata.size for file in there.values()))
        alone, shared = runs(there)
        calls: list[Callable[[], dict[_Content, str]]] = [
            *(partial(self._compare, content, file, report.progress) for content, file in alone.items()),
            *(partial(self._compare_run, run, report.progress) for run in shared),
        ]
        causes = concurrent_map(lambda call: call(), calls, self._threads, after_error="wait")
        self._damaged = {content: cause for found in causes for content, cause in found.items()}

    def _index(self, blob: str) -> SnapshotIndex | str:
        try:
            return read_index(self._container, blob)
        except NotFoundError:
            return _GONE
        except (CorruptError, ConfigurationError) as error:
            return str(error)

    def _faults(self, store: str, path: str, file: FileIndex) -> Iterator[Fault]:
        for blob, size in file.extents():
            cause = self._cause(blob.blob_id, blob.pack_size or size)
            if cause:
                yield Fault(store, path, blob.blob_id, cause)
        if _content(file) in self._damaged:
            yield Fault(store, path, file.blobs[0].blob_id, self._damaged[_content(file)])

    def _cause(self, blob: str, size: int) -> str:
        found = self._properties(blob)
        if found is None:
            return _GONE
        if found.size != size:
            return f"it has {found.size:,} bytes, not {size:,}"
        if found.tier == "Archive":
            return "it is in the tier Archive: rehydrate it before a restore"
        return "it is condemned: the next clean-up deletes it" if blob in self._condemned else ""

    def _properties(self, blob: str) -> BlobProperties | None:
        """The properties of a blob in the listing, or elsewhere, where an index should name none."""
        if not self._names.owns(blob) and blob not in self._listed:
            found = self._container.properties(blob)
            if found is not None:
                self._listed[blob] = found
        return self._listed.get(blob)

    def _compare(self, content: _Content, file: FileIndex, progress: Callable[[int], object]) -> dict[_Content, str]:
        """Why the bytes are not those that were backed up; nothing if they are."""
        try:
            for fetched in range(FETCHES):  # a bit may have been flipped on the way
                found = new_blake3()
                for piece in self._pieces(file):
                    found.update(piece)
                    if not fetched:
                        progress(len(piece))
                if found.hexdigest() == file.blake3:
                    return {}
        except NotFoundError:
            return {content: _GONE}
        return {content: _other_bytes(file)}

    def _compare_run(self, run: PackRange[_Content], progress: Callable[[int], object]) -> dict[_Content, str]:
        try:
            whole = fetch_run(self._container, run)
        except NotFoundError:
            return {content: _GONE for content, _ in run.files}
        progress(sum(file.metadata.size for _, file in run.files))
        return {content: _other_bytes(file) for content, file in run.files if content not in whole}

    def _pieces(self, file: FileIndex) -> Iterator[bytes]:
        for blob, size in file.extents():
            for start in range(0, size, _PIECE_BYTES):
                length = min(_PIECE_BYTES, size - start)
                yield self._container.get(blob.blob_id, blob.pack_offset + start, length).data


def _content(file: FileIndex) -> _Content:
    return file.blobs, file.metadata.size, file.blake3


def _other_bytes(file: FileIndex) -> str:
    return _OTHER_BYTES_IN_PACK if any(blob.pack_size for blob in file.blobs) else _OTHER_BYTES

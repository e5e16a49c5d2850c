"""What must hold in a history, checked at every change of the storage. The model is plain dicts of trees."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from foundation.errors import AzureBlobError
from state_backup.index import snapshot_index
from state_backup.record.record import CheckpointRecord, from_json
from tests.histories import world as histories

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state_backup.index.snapshot_index import DirIndex, FileBlob
    from state_backup.record.record import Checkpoint
    from tests.state_backup.index.trees import Tree

Stores: TypeAlias = "Mapping[str, Tree]"
STATE = "flights/task-3"
RECORD = f"{STATE}/checkpoint.json"
KEEP = 2


@dataclass(kw_only=True)
class Truth(histories.Truth):
    """What was written and committed."""

    attempts: dict[str, Stores] = field(default_factory=dict)
    """What each backup is of, by the offset that it was given."""
    made_by: dict[str, str] = field(default_factory=dict)
    """The writer of each backup."""
    kept: dict[str, frozenset[str]] = field(default_factory=dict)
    """The checkpoint ids that each backup was told to keep."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    record: CheckpointRecord = field(default_factory=lambda: CheckpointRecord(0, ""))
    writers: list[str] = field(default_factory=list)
    in_use: frozenset[str] = frozenset()
    committed: set[str] = field(default_factory=set)
    """The attempts that a record has named."""
    ever_condemned: set[str] = field(default_factory=set)
    ever_in_use: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    homes: dict[str, dict[str, str]] = field(default_factory=dict)
    """The blob that has a content in the newest checkpoint, by store and BLAKE3."""

    def changed(self, name: str, data: bytes | None) -> None:
        """A blob was written, or (None) deleted."""
        if data is None:
            self.blobs.pop(name, None)
            self.deleted.add(name)
            if name in self.in_use:
                self.fail(f"{name}, which a checkpoint needs, is deleted")
            return
        if name in self.in_use:
            self.fail(f"{name}, which a checkpoint needs, is written again")
        self.blobs[name] = data
        if name == RECORD:
            self._record(from_json(data, name))

    def _record(self, record: CheckpointRecord) -> None:
        before, self.record = self.record, record
        if record.epoch < before.epoch:
            self.fail(f"the epoch falls from {before.epoch} to {record.epoch}")
        if record.writer != before.writer:
            if record.writer in self.writers:
                self.fail(f"writer {record.writer} was replaced and writes the record")
            self.writers.append(record.writer)
        if record.keep != before.keep and before.keep is not None:
            self.seen["the number of checkpoints is changed by order"] += 1
            if record.checkpoints != before.checkpoints or record.writer != before.writer:
                self.fail(f"a run changes the number of checkpoints from {before.keep} to {record.keep}")
        if record.checkpoints != before.checkpoints:
            self._checkpoints(record.checkpoints, before.checkpoints)
        elif record.writer == before.writer and set(before.condemned) - set(record.condemned):
            self.seen["the list of condemned blobs was too short, and the rest follows"] += 1
        self.ever_condemned |= set(record.condemned)
        if self.in_use & set(record.condemned):
            self.fail(f"{min(self.in_use & set(record.condemned))}, which a checkpoint needs, is condemned")

    def _checkpoints(self, now: tuple[Checkpoint, ...], before: tuple[Checkpoint, ...]) -> None:
        keep = self.record.keep or KEEP
        older, kept = before[keep - 1 :], self.kept[now[0].offsets["attempt"]]
        stay = (*before[: keep - 1], *(each for each in older if str(each.id) in kept))
        self.seen["an older checkpoint is kept"] += len(stay) >= keep
        if now[1:] != stay or (before and now[0].id <= before[0].id):
            self.fail(f"checkpoint {now[0].id} does not follow {before[0].id if before else None}")
        if self.made_by[now[0].offsets["attempt"]] != self.record.writer:
            self.fail(f"checkpoint {now[0].id} is of a writer that was replaced")
        if now[0].offsets["attempt"] in self.committed:
            self.fail(f"checkpoint {now[0].id} is of a backup that was committed before")
        needed: set[str] = set()
        for checkpoint in now:
            needed |= self._needed(checkpoint)
        self._note_packs(now[0])
        self.in_use = frozenset(needed)
        self.ever_in_use |= needed
        self.committed.add(now[0].offsets["attempt"])

    def _needed(self, checkpoint: Checkpoint) -> set[str]:
        """The blobs of a checkpoint, whose bytes are those that were backed up."""
        stores = self.attempts[checkpoint.offsets["attempt"]]
        needed = set(checkpoint.indexes.values())
        if set(stores) != set(checkpoint.indexes):
            self.fail(f"checkpoint {checkpoint.id} has other stores")
        for store, blob in checkpoint.indexes.items():
            needed |= self._store(checkpoint, blob, stores[store])
        return needed

    def _store(self, checkpoint: Checkpoint, blob: str, expected: Tree) -> set[str]:
        try:
            root = snapshot_index.from_json(self.blobs[blob], blob).root
            if self._tree(root) != expected:
                self.fail(f"checkpoint {checkpoint.id} has other bytes than were backed up")
        except (KeyError, AzureBlobError) as error:
            self.fail(f"checkpoint {checkpoint.id} is committed without {error}")
            return set()
        return {part.blob_id for _, file in root.files() for part in file.blobs}

    def _note_packs(self, newest: Checkpoint) -> None:
        """Count packs of a new checkpoint, those that it needs in part, and content that has left a worn pack."""
        for store, index in newest.indexes.items():
            if index not in self.blobs:
                continue  # which is a violation already
            root = snapshot_index.from_json(self.blobs[index], index).root
            parts = {(file.blake3, part, size) for _, file in root.files() for part, size in file.extents()}
            live: Counter[str] = Counter()
            for _, part, size in parts:
                live[part.blob_id] += size
            packs = {part.blob_id: part.pack_size for _, part, _ in parts if part.pack_size}
            self.seen["a pack is committed"] += len(packs)
            self.seen["a pack is needed in part"] += sum(live[pack] < size for pack, size in packs.items())
            if any(2 * live[pack] < size for pack, size in packs.items()):
                self.fail("of a pack that a new checkpoint needs, more than half is waste")
            homes, self.homes[store] = self.homes.get(store, {}), {content: part.blob_id for content, part, _ in parts}
            moved = [content for content, blob in self.homes[store].items() if homes.get(content, blob) != blob]
            self.seen["files of a worn pack are uploaded again"] += bool(moved)

    def _part(self, part: FileBlob, size: int) -> bytes:
        """The bytes that a file has of a blob. A blob of another size has been mixed up."""
        blob = self.blobs[part.blob_id]
        if len(blob) != (part.pack_size or size):
            self.fail(f"{part.blob_id} has another size than its index says")
        return blob[part.pack_offset : part.pack_offset + size]

    def _tree(self, root: DirIndex) -> Tree:
        files = {
            file.name: file.data or b"".join(self._part(part, size) for part, size in file.extents())
            for file in root.files_present
        }
        return {**files, **{below.name: self._tree(below) for below in root.sub_dirs_present}}

"""Random logs, as lists of entries, and checkpoints of them that are kept in memory."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from arrow_avro import header_schema
from azureblob_source.log.checkpoint.building import MANIFEST_BLOBS, begun, extended
from azureblob_source.log.checkpoint.live_table import LIVE, live_table
from azureblob_source.log.checkpoint.manifest import without
from azureblob_source.log.checkpoint.manifest_list import ManifestFile
from azureblob_source.log.checkpoint.table_columns import TableColumns
from azureblob_source.log.checkpoint.tail import added_by, tail_effect
from azureblob_source.log.entry import BlobEntry, LogEntry
from azureblob_source.log.live import entries_in_effect, live_blobs

if TYPE_CHECKING:
    from random import Random

    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint

Rows = list[dict[str, Any]]
_FIELDS = [{"name": name, "type": ["null", "string"]} for name in "pq"]
_SCHEMA = header_schema(json.dumps({"type": "record", "name": "row", "fields": _FIELDS}), blob="a blob")
COLUMNS = TableColumns({}, lambda _: _SCHEMA)


@dataclass
class MemoryManifests:
    """Manifests in memory. reads: how many were read."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    reads: int = 0

    def read(self, manifest: ManifestFile) -> pa.Table:
        """The live table of a manifest."""
        self.reads += 1
        return self.tables[manifest.name]

    def write(self, table: pa.Table, version: int) -> ManifestFile:
        """Keep a manifest of the checkpoint at `version`."""
        name = f"m{len(self.tables)}"
        self.tables[name] = table
        return ManifestFile.of(name, 1, version, table)


@dataclass
class RandomLog:
    """A log that grows, its retention boundary, and the checkpoints that were made of it.

    named: the share of the live blobs that an overwrite names as removed.
    partition_column: of the next entries. repartitioned: the share of entries with another one.
    """

    draws: Random
    entries: list[LogEntry] = field(default_factory=list)
    kept_from: int = 0
    store: MemoryManifests = field(default_factory=MemoryManifests)
    checkpoints: list[LogCheckpoint] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    blobs: int = 0
    named: float = 0.9
    partition_column: str | None = None
    repartitioned: float = 0.0

    def grow(self) -> None:
        """The next entry, as a writer appends it."""
        draws = self.draws
        match draws.choices(["append", "overwrite", "partitions", "remove", "revoke", "void"], [8, 1, 2, 2, 3, 1])[0]:
            case "overwrite":
                # `since` says that nothing before it is live, whatever it removes
                removed = tuple(blob.removal for blob in self._live() if draws.random() < self.named)
                self._put("overwrite", since=self.next, blobs=self._new_blobs(), removed=removed)
            case "partitions":
                blobs = self._new_blobs()
                own = {blob.partition for blob in blobs}
                removed = tuple(blob.removal for blob in self._live() if blob.partition in own)
                self._put("overwrite-partitions", blobs=blobs, removed=removed)
            case "remove" if live := self._live():
                gone = draws.sample(live, draws.randint(1, len(live)))
                self._put("append", blobs=self._new_blobs(), removed=tuple(blob.removal for blob in gone))
            case "revoke" if taken_back := self._revocable():
                some = sorted(draws.sample(taken_back, draws.randint(1, min(3, len(taken_back)))))
                self._put("revert", reverts=tuple(some))
            case "void" if self.entries:
                head = self.entries[-1]
                since = self.entries[-2].since if head.operation == "overwrite" and head.version else head.since
                self._put("void", since=since, replaces=head.version)
            case _:
                self._put("append", blobs=self._new_blobs())
        if self.draws.random() < 0.1:
            self.kept_from = self.draws.randint(self.kept_from, self.entries[-1].version)

    @property
    def next(self) -> int:
        """The version of the next entry."""
        return len(self.entries)

    def _put(self, operation: Any, since: int | None = None, **given: Any) -> None:
        head = self.entries[-1] if self.entries else None
        if self.draws.random() < self.repartitioned:
            self.partition_column = self.draws.choice([None, "p", "q"])
        since = since if since is not None else 0 if head is None else head.since
        moment = f"2026-01-01T00:{self.next // 60:02}:{self.next % 60:02}.{self.draws.randrange(1000):03}+00:00"
        entry = LogEntry(
            f"w{self.next}", moment, operation, version=self.next, since=since, log_id="w0",
            published_up_to=self.next - 1,
            last_deletion=None if head is None else head.newest_deletion,
            last_compaction=None if head is None else head.newest_compaction,
            **given,
        )  # fmt: skip
        self.entries.append(entry)

    def _new_blobs(self) -> tuple[BlobEntry, ...]:
        return tuple(self._new_blob() for _ in range(self.draws.choice([0, 1, 1, 2, 2, 3, 9])))

    def _new_blob(self) -> BlobEntry:
        self.blobs += 1
        draws, attempt = self.draws, f"{self.blobs:016x}"
        times = sorted(draws.choices(range(1000), k=2)) if draws.random() < 0.5 else [None, None]
        partition = draws.choice([None, "x", "São Paulo"])
        rows, size = draws.randrange(9), draws.randrange(99)
        blob = BlobEntry(f"s/{attempt}.avro", "s", partition, attempt, 1, rows, 7, size, "f", "end", *times)
        return replace(blob, partition_column=self.partition_column)

    def _live(self) -> list[BlobEntry]:
        """What is live at the head."""
        last = self.entries[-1] if self.entries else None
        return [] if last is None else list(live_blobs(self._since(last.version)).values())

    def _since(self, version: int) -> list[LogEntry]:
        first = max(self.entries[version].since, self.kept_from)
        return self.entries[first : version + 1]

    def _revocable(self) -> list[int]:
        """Entries that a revert may take back: those in effect that replaced nothing as a whole."""
        since = [] if not self.entries else self._since(self.next - 1)
        return [entry.version for entry in entries_in_effect(since) if entry.operation == "append"]

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """The checkpoint at the head, from an earlier one if there is one that is a base."""
        last, draws = self.entries[-1], self.draws
        bases = [each for each in self.checkpoints if each.version < last.version and each.version >= self.kept_from]
        base = draws.choice(bases[-3:]) if bases and draws.random() < 0.9 else None
        made = None
        if base is not None and base.since == last.since:
            made = extended(base, self.entries[base.version + 1 :], self.store, COLUMNS, self.kept_from)
            self.seen["no base for the next checkpoint"] += made is None
            if made is not None:
                self._look(base, made)
        if made is None:
            made = begun(self._since(last.version), self.store, COLUMNS)
        for manifest in made.manifests:
            table = self.store.tables[manifest.name]
            assert ManifestFile.of(manifest.name, 1, manifest.added, table) == manifest
            assert manifest.blobs <= MANIFEST_BLOBS
            assert {manifest.partition_field} == set(table["partition_field"].to_pylist())
        of_one = len({each.partition_field for each in made.manifests}) < 2
        assert not of_one or sorted(made.manifests, key=lambda each: (each.first, each.last)) == list(made.manifests)
        self.checkpoints.append(made)

    def _look(self, base: LogCheckpoint, made: LogCheckpoint) -> None:
        names = [each.name for each in made.manifests]
        left = [each for each in base.manifests if each.name not in names]
        self.seen["manifest used again"] += len(left) < len(base.manifests)
        self.seen["manifest written again"] += any(each != base.manifests[-1] for each in left)
        merged = len(made.manifests) < len(base.manifests) and made.blobs > base.blobs
        self.seen["manifests fewer than before"] += merged
        self.seen["several partition fields"] += len({each.partition_field for each in made.manifests}) > 1

    def by_entries(self, version: int) -> Rows:
        """What is live at a version by the entries alone."""
        rows: Rows = live_table(added_by(self._since(version)), COLUMNS).to_pylist()
        return rows

    def by_checkpoint(self, base: LogCheckpoint, version: int) -> Rows | None:
        """The same by a checkpoint and the entries after it. None if it is no base for them."""
        effect = tail_effect(base, self.entries[: version + 1])
        if effect is None:
            self.seen["no base for a read"] += 1
            return None
        table = pa.concat_tables([LIVE.empty_table(), *(self.store.tables[each.name] for each in base.manifests)])
        if len({each.partition_field for each in base.manifests}) > 1:
            table = table.sort_by("version")
        left = without(table, versions=effect.versions, names=effect.names, kept_from=self.kept_from)
        rows: Rows = [*left.to_pylist(), *live_table(effect.added, COLUMNS).to_pylist()]
        return rows

    def check(self) -> None:
        """Every checkpoint gives what the entries give, at its version and at all later ones."""
        for base in (each for each in self.checkpoints if each.version >= self.kept_from):
            below = any(each.first < self.kept_from for each in base.manifests)
            for version in range(base.version, self.next):
                found = self.by_checkpoint(base, version)
                assert found is None or self.by_entries(version) == found, (base.version, version)
                self.seen["compared"] += found is not None
                self.seen["below the boundary"] += found is not None and below
                self._look_at_partitions(base)

    def _look_at_partitions(self, base: LogCheckpoint) -> None:
        """A manifest says of the partition of each of its blobs that it may have it."""
        for manifest in base.manifests:
            there = set(self.store.tables[manifest.name]["partition"].to_pylist())
            assert all(map(manifest.may_have, there)), (manifest, there)
            self.seen["manifest without a partition"] += not manifest.may_have("x")

"""Publishing: the blobs of a log entry become visible, or are returned as unpublishable.

    publish(entry) ─► void, replace: delete revoked blobs ─► commit block lists ─► others: delete what they removed,
                                                                                   once it is copied, if they keep it

A block list is committed only if the blob is absent. If a blob is there, its `azureblob_attempt` metadata or, where a
tool has replaced the metadata, its committed block ids show whether this attempt made it. A blob that cannot be
published is a value, `Unpublishable`: its staged blocks are gone, another writer's blob has its name, or the service
refuses it (index tags on an account that has none, a tier, a policy). See `roll_forward.py` for what follows then.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import TimeoutError as FuturesTimeoutError
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from azure_account.readback import ATTEMPTS, request_and_read_back
from azure_account.values import IF_ABSENT, BlobAttributes, Condition, Conflict, Done, Missing
from azureblob_source.log.entry import ATTEMPT, DISCARDED, attempt_of
from azureblob_source.log.naming import attempt_of_blocks, probe_name, replaced_name
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, TransientError
from foundation.parallel import Item, Result, concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from azure_account.container import BlobContainer
    from azure_account.readback import Doubtful
    from azure_account.values import BlobProperties, Outcome
    from azureblob_source.log.entry import BlobEntry, LogEntry, Removal
    from azureblob_source.log.stream_notes import StreamNotes
    from foundation.clock import Clock

Admit: TypeAlias = "Callable[[str, LogEntry | None, Iterable[str]], None]"

_FINISHED_LATER = (
    "If the batch is in the log, the next write to the stream or `python -m azureblob_source repair` publishes it. A "
    "streaming query, or a write with `txnAppId`, can be run again safely; for any other write look at the view "
    "`commits` first, as running it again may write its rows twice."
)


class Obstacle(Enum):
    """Why a blob cannot be published."""

    GONE = "no blob has this name, and its staged blocks are gone (they expired, or the blob was deleted)"
    FOREIGN = "another writer's blob has this name"
    REFUSED = "the service refuses it"


@dataclass(frozen=True)
class Unpublishable:
    """A blob that cannot be published, and why."""

    blob: BlobEntry
    obstacle: Obstacle
    refusal: str = ""

    @property
    def cause(self) -> str:
        """One clause for a message."""
        return self.refusal or self.obstacle.value


class _Occupant(Enum):
    """What has the name of a blob."""

    NOTHING = "no blob has the name"
    OURS = "the blob of the same attempt"
    FOREIGN = "another writer's blob"


@dataclass(frozen=True)
class Publisher:
    """Commits block lists concurrently. `deadline` (s) bounds one entry; `threads` bounds the requests at once.

    `unique_names`: names end in a random suffix, so no other blob is expected to have them. `at_least_once`: the tasks
    publish blobs before the driver commits them. `admit`: raises an error if blobs of some schemas cannot follow the
    head of a stream's log; called before they are committed. `etags`: by name, of blobs to remove that were read and
    are of the attempt that is removed: they are not looked at again.
    """

    container: BlobContainer
    threads: int = 32
    deadline: float = 300.0
    unique_names: bool = True
    at_least_once: bool = False
    admit: Admit = lambda _stream, _head, _schemas: None
    etags: Mapping[str, str] = field(default_factory=dict)
    clock: Clock = SYSTEM_CLOCK

    def check_names(self, blobs: Sequence[BlobEntry]) -> None:
        """`ConflictError` if two of `blobs` have one name, or a name is taken. Called before they are committed.

        Names that end in a random suffix are not looked up.
        """
        attempts: dict[str, str] = {}
        for blob in blobs:
            if attempts.setdefault(blob.name, blob.attempt) != blob.attempt:
                raise self._name_taken(blob, "two tasks of this batch gave it to a blob of theirs")
        if not self.unique_names:
            for blob in blobs:
                if self._clear_name(blob) is _Occupant.FOREIGN:
                    raise self._name_taken(blob, "another blob has this name")

    def probe_service(self, stream: str, attributes: BlobAttributes, *, deletes: bool, keeps: bool = False) -> None:
        """`ConfigurationError` if the service refuses index tags, a tier, deletes or copies.

        Called before a batch is committed. Writes and deletes one small blob beside the log, two if it copies.
        """
        asked = json.dumps([dict(attributes.tags), attributes.tier, deletes], sort_keys=True)
        name = probe_name(stream, hashlib.sha256(asked.encode()).hexdigest()[:16])
        try:
            self.container.put(name, b"-", attributes, condition=IF_ABSENT)
        except ConfigurationError as error:
            step = "Nothing was committed. Change the options `tags.*` and `accessTier`, or grant what is missing."
            raise ConfigurationError(
                "write", f"a trial blob {name}", error.cause, f"{step} {error.next_step}".rstrip()
            ) from error
        if keeps:
            from azureblob_source.log.publishing.copying import probe_copy  # noqa: PLC0415 - few writers keep what they replace

            probe_copy(self.container, name)
        try:
            outcome = self.container.delete(name)
            refused = outcome.reason if isinstance(outcome, Conflict) else ""
        except ConfigurationError as error:
            refused = error.cause
        if deletes and refused:
            step = "Nothing was committed. Grant the permission to delete; plain appends do not need it."
            raise ConfigurationError("delete", f"a trial blob {name}", refused, step)

    def probe_once(
        self, stream: str, notes: StreamNotes, attributes: BlobAttributes, *, deletes: bool, keeps: bool = False
    ) -> None:
        """As `probe_service`, unless the stream's notes say that the service allows it."""
        if (attributes, deletes) not in notes.probed:
            self.probe_service(stream, attributes, deletes=deletes, keeps=keeps)
            notes.probed.append((attributes, deletes))

    def publish(self, entry: LogEntry, stream: str) -> list[Unpublishable]:
        """Make every blob of a committed entry of a stream visible. Returns those that cannot be.

        Idempotent, and safe for several processes at once. An error of removing blobs is raised.
        """
        if entry.operation in ("replace", "void"):
            self.remove(entry.removed, entry)
        failed = self.publish_blobs(entry)
        if not failed and (entry.overwrites or entry.operation in ("compact", "revert", "restore")):
            self.remove(entry.removed, entry, None if entry.kept_until is None else stream)
        return failed

    def publish_blobs(self, entry: LogEntry) -> list[Unpublishable]:
        """Publish an entry's blobs, and delete nothing; returns those that cannot be. Adopted blobs are visible."""
        if entry.adopts:
            return []
        done = self._concurrently(lambda blob: self.publish_blob(blob, entry.attributes), entry.blobs)
        return [each for each in done if each is not None]

    def deleted_by(self, entry: LogEntry) -> set[Removal]:
        """The blobs that an entry replaces and that are gone. It may have deleted them, so its void removes them."""
        if not entry.overwrites and entry.operation not in ("compact", "restore"):
            return set()
        found = self._concurrently(lambda each: still_there(self.container, each), entry.removed)
        return {removal for removal, there in zip(entry.removed, found, strict=True) if there is None}

    def discard(self, blob: BlobEntry) -> bool:
        """Drop the staged blocks of a blob, so that no process can publish it any more. False if it was published."""
        drop_staged_blocks(self.container, blob.name)
        return self._clear_name(blob) is not _Occupant.OURS

    def publish_blob(self, blob: BlobEntry, attributes: BlobAttributes) -> Unpublishable | None:
        """Commit one block list; None if the blob is visible then."""
        own = replace(attributes, metadata={**attributes.metadata, ATTEMPT: blob.attempt})

        def commit() -> Outcome | ConfigurationError:
            try:
                return self.container.commit_block_list(blob.name, blob.block_ids, own, condition=IF_ABSENT)
            except ConfigurationError as refusal:
                return refusal

        def read_back(answer: Doubtful) -> _Occupant | Unpublishable | None:
            match self._clear_name(blob), answer:
                case _Occupant.OURS, _:
                    return _Occupant.OURS
                case _, ConfigurationError():
                    return Unpublishable(blob, Obstacle.REFUSED, str(answer))
                case _Occupant.FOREIGN, _:
                    return Unpublishable(blob, Obstacle.FOREIGN)
                case _, Missing():
                    return Unpublishable(blob, Obstacle.GONE)
            return None

        found = request_and_read_back(commit, read_back, lambda _: self._unresolved("publish", blob.name))
        return found if isinstance(found, Unpublishable) else None

    def remove(self, removals: Sequence[Removal], entry: LogEntry, kept_in: str | None = None) -> None:
        """Delete blobs that an entry removes, and no other blob that has a name of theirs. Idempotent.

        kept_in: the stream in which each is kept: it is copied before it is deleted.

        `ConflictError` or `ConfigurationError` if one cannot be: readers of the listing would still see it.
        """
        self._concurrently(lambda removal: self._remove(removal, entry, kept_in), removals)

    def _remove(self, removal: Removal, entry: LogEntry, kept_in: str | None) -> None:
        """Delete one blob, on the ETag of the blob that was seen to carry the attempt, and was copied then."""
        if removal.name in self.etags and self._clear(removal.name, self.etags[removal.name]):
            return
        held: BlobProperties | None = None
        answer: Outcome | None = None
        for _ in range(ATTEMPTS):
            there = still_there(self.container, removal)
            if there is None:
                return
            if isinstance(answer, Conflict) and held is not None and held.etag == there.etag:
                raise self._held(ConflictError, removal.name, entry, answer.reason)
            held = there
            if kept_in is not None and not self._keep(there, replaced_name(kept_in, entry.version, there.name), entry):
                answer = None
                continue
            try:
                answer = self.container.delete(there.name, condition=Condition(if_match=there.etag))
            except ConfigurationError as error:
                if still_there(self.container, removal) is None:
                    return
                raise self._held(ConfigurationError, removal.name, entry, error.failure) from error
            if isinstance(answer, Done):
                return
        raise self._unresolved("delete", removal.name)

    def _keep(self, there: BlobProperties, name: str, entry: LogEntry) -> bool:
        """Copy a blob that is to be deleted. False if that is to be tried again: it may be gone, or another version."""
        from azureblob_source.log.publishing.copying import keep_copy  # noqa: PLC0415 - few writers keep what they replace

        if attempt_of(there.metadata) == DISCARDED:
            return True
        try:
            return keep_copy(self.container, there, name, self.deadline, self.clock)
        except ConfigurationError as error:
            raise self._held(ConfigurationError, there.name, entry, error.failure) from error

    def _unresolved(self, operation: str, name: str) -> TransientError:
        return TransientError(operation, self._place(name), "its state stays unknown", _FINISHED_LATER)

    def _held(self, kind: type[AzureBlobError], name: str, entry: LogEntry, cause: str) -> AzureBlobError:
        command = f"python -m azureblob_source repair {self.container.name}/STREAM --void {entry.version} --leave-blobs"
        step = (
            "Break its lease, delete its snapshots, lift the hold or grant the permission, then write again, which "
            f"finishes version {entry.version}. Or leave it visible to readers of the listing: `{command}`."
        )
        return kind(f"version {entry.version}: delete", self._place(name), cause, step)

    def _clear_name(self, blob: BlobEntry) -> _Occupant:
        """Delete the empty blob that an interrupted repair has left, then look what has the blob's name."""
        there = self.container.properties(blob.name)
        if there is None:
            return _Occupant.NOTHING
        attempt = attempt_of(there.metadata)
        if attempt == DISCARDED and not there.size:
            return _Occupant.NOTHING if self._clear(there.name, there.etag) else _Occupant.FOREIGN
        if attempt == blob.attempt or list(self.container.block_ids(blob.name)) == blob.block_ids:
            return _Occupant.OURS
        return _Occupant.FOREIGN

    def _clear(self, name: str, etag: str) -> bool:
        """Delete a blob with this ETag. False if that is not permitted, or it has another one: the name is taken."""
        try:
            outcome = self.container.delete(name, condition=Condition(if_match=etag))
        except ConfigurationError:
            return False
        return isinstance(outcome, Done | Missing)

    def _name_taken(self, blob: BlobEntry, cause: str) -> ConflictError:
        step = "Nothing of this batch was committed: run it again, with `suffixRandomStringToBlobName` set to true."
        return ConflictError("commit", self._place(blob.name), cause, step)

    def _place(self, name: str) -> str:
        return f"blob {name} in {self.container.url}"

    def _concurrently(self, act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        try:
            return concurrent_map(act, items, self.threads, after_error="abandon", timeout=self.deadline)
        except FuturesTimeoutError as error:
            where = f"{len(items)} blobs in {self.container.url}"
            cause = "the time allowed by `closeTimeoutMs` is over"
            raise TransientError("publish", where, cause, _FINISHED_LATER, elapsed=self.deadline) from error


def still_there(container: BlobContainer, removal: Removal) -> BlobProperties | None:
    """The blob to remove, None if it is gone: its name may belong to another writer's blob since."""
    there = container.properties(removal.name)
    if there is None:
        return None
    attempt = attempt_of(there.metadata)
    if attempt == DISCARDED:
        return None if there.size else there
    if attempt == removal.attempt:
        return there
    # a tool may have replaced the metadata
    return there if attempt_of_blocks(container.block_ids(removal.name)) == removal.attempt else None


def drop_staged_blocks(container: BlobContainer, name: str) -> None:
    """Commit an empty block list where there is no blob; the caller deletes the empty blob, in just this version.

    A plain delete could delete a blob that was committed in between, and no condition of a delete prevents that.
    """
    container.commit_block_list(name, [], BlobAttributes({ATTEMPT: DISCARDED}), condition=IF_ABSENT)

"""The driver's side of one batch: the tasks' messages in, one published log entry per stream out.

    messages ─ by stream ─ writer schemas ─ (batch entry, if rows name their streams) ─ commit to each stream's log

A batch whose rows name their streams (`streamColumn`) is committed once, in the batch log of its transaction, before
any stream's log: a repeat that would spread rows over other streams then finds the batch entry and commits what that
says. When some of its staged blocks have expired, the batch entry as a whole is replaced: first all its blobs are
removed from every stream, then each stream's log gets its part of the new batch entry.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from azure_account.readback import ATTEMPTS, request_and_read_back
from azure_account.values import IF_ABSENT, Conflict
from azureblob_source.log.commit import (
    commit_and_publish,
    commit_entry,
    commit_if_repeated,
    commit_part,
    replacement,
    taken_back_error,
)
from azureblob_source.log.entry import Draft, LogEntry, Transaction
from azureblob_source.log.naming import batches_stream, schema_name
from azureblob_source.log.publishing.fencing import check_epoch
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.roll_forward import NotPublished
from azureblob_source.metrics import batch_metrics
from azureblob_source.write.control_objects import merged, split_by_stream
from azureblob_source.write.row_counts import check_named
from azureblob_source.write.staged_task import blobs_of
from azureblob_source.write.stream_gate import StreamGate
from foundation.clock import SYSTEM_CLOCK, utc
from foundation.errors import AzureBlobError, ConflictError, TransientError
from foundation.parallel import Result, concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from azure_account.container import BlobContainer
    from azure_account.readback import Doubtful
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import AnyEntry, BlobEntry, Operation
    from azureblob_source.log.publishing.publish import Unpublishable
    from azureblob_source.write.commit_plan import CommitPlan
    from azureblob_source.write.staged_task import StagedTask
    from foundation.clock import Clock

logger = logging.getLogger("azureblob_source")

_STREAMS_AT_ONCE = 8


@dataclass(frozen=True)
class BatchCommitter:
    """Commits batches of one write. `logs` gives the process's one `CommitLog` of a stream."""

    plan: CommitPlan
    container: BlobContainer
    logs: Callable[[str], CommitLog]
    new_id: Callable[[], str]
    clock: Clock = SYSTEM_CLOCK

    @property
    def publisher(self) -> Publisher:
        """How blobs become visible."""
        plan = self.plan
        return Publisher(
            self.container,
            deadline=plan.close_timeout,
            unique_names=plan.unique_names,
            at_least_once=plan.at_least_once,
            admit=self._gate.admit,
            clock=self.clock,
        )

    @property
    def _gate(self) -> StreamGate:
        return StreamGate(self.plan, self.logs)

    def commit(
        self, staged: Sequence[StagedTask], transaction: Transaction | None, *, overwrite: bool = False
    ) -> list[LogEntry]:
        """Commit and publish a batch. Called again with other messages when the batch is repeated.

        Returns the entries in effect for the batch, as far as they are still in the log; none if it has no rows.
        """
        if self.plan.at_least_once:
            transaction = None
        blobs = blobs_of(staged)
        check_named(sum(task.rows for task in staged), _rows(blobs), "the blobs of the tasks")
        streams = sorted({blob.stream for blob in blobs})
        operation = self._operation(overwrite=overwrite)
        self._check_streams(streams, transaction, overwrite=operation == "overwrite")
        self._keep_schema(streams)
        given = self.plan.stream
        self._check_service(streams or ([] if given is None else [given]), overwrite=overwrite)
        writers = [{**task.writer, "metrics": task.metrics} for task in staged if task.blobs]
        control = merged(message for task in staged for message in task.control)
        if self.plan.rows_name_streams and transaction is not None:
            draft = self._draft("append", transaction, blobs, control)
            check_named(_rows(blobs), draft.rows, "the batch entry")
            entries = self._commit_by_batch_log(draft, transaction, writers)
        else:
            entries = self._commit_each_stream(operation, transaction, blobs, control, writers)
        self._keep_schema_again(streams)
        self._check_order(transaction, entries)
        self._make_checkpoints(entries)
        return [entry for entry in entries if isinstance(entry, LogEntry)]

    def _operation(self, *, overwrite: bool) -> Operation:
        if overwrite:
            return "overwrite-partitions" if self.plan.overwrite_partitions else "overwrite"
        return "append"

    def _commit_each_stream(
        self,
        operation: Operation,
        transaction: Transaction | None,
        blobs: Sequence[BlobEntry],
        control: Sequence[Mapping[str, Any]],
        writers: Sequence[Mapping[str, Any]],
    ) -> list[AnyEntry]:
        """Commit each stream's part by itself. Without rows: publish what an earlier run of the batch has committed.

        An overwrite without rows removes all rows; one of partitions has no partition to replace, and commits nothing.
        """
        blobs_by_stream, control_by_stream = _by_stream(blobs), split_by_stream(control)
        stream = self.plan.stream
        if operation == "overwrite" and stream is not None:
            blobs_by_stream.setdefault(stream, [])
        if not blobs_by_stream and stream is not None and transaction is not None:
            entry = commit_if_repeated(self.logs(stream), self._draft(operation, transaction, (), ()), self.publisher)
            return [] if entry is None else [entry]
        drafts = {
            stream: self._draft(operation, transaction, of_stream, control_by_stream.get(stream, ()), writers)
            for stream, of_stream in sorted(blobs_by_stream.items())
        }
        check_named(_rows(blobs), _rows(drafts.values()), "the entries")
        commit = partial(commit_and_publish, publisher=self.publisher)
        return _for_streams(lambda stream: commit(self.logs(stream), drafts[stream]), list(drafts))

    def _make_checkpoints(self, entries: Iterable[AnyEntry]) -> None:
        """Make the checkpoints that are due after these entries, which are published."""
        for entry in entries:
            if isinstance(entry, LogEntry):
                stream = entry.blobs[0].stream if entry.blobs else self.plan.stream
                if stream is not None and self._is_due(self.logs(stream), entry):
                    from azureblob_source.log.checkpointing import (  # noqa: PLC0415 - one commit of many makes one
                        checkpoint_in_commit,
                    )

                    last = self._compacted(self.logs(stream), entry) if self.plan.auto_compact else entry
                    checkpoint_in_commit(self.logs(stream), last, self.plan.iceberg_paths)

    def _compacted(self, log: CommitLog, entry: LogEntry) -> LogEntry:
        """Join small blobs of a stream after an entry; returns the newest entry then."""
        from azureblob_source.log.relocating.compaction import compact_in_commit  # noqa: PLC0415 - as above

        now = utc(self.clock).isoformat(timespec="milliseconds")
        return compact_in_commit(log, entry, lambda: Draft(self.new_id(), now))

    def _is_due(self, log: CommitLog, entry: LogEntry) -> bool:
        """Whether a checkpoint is made at an entry. An Iceberg table must not name blobs that were removed.

        If one is due at a version without a batch, it is made at the batch after it.
        """
        if self.plan.iceberg_paths is not None and entry.removed:
            return True
        version = entry.version
        while (version + 1) % self.plan.checkpoint_interval:
            version -= 1
            before = log.recent(version)
            if before is None or before.overwrites or before.operation in ("append", "replace"):
                return False
        return True

    def _check_order(self, transaction: Transaction | None, entries: Sequence[AnyEntry]) -> None:
        """`ConflictError` if a log has another batch of a streaming query as its newest.

        A later one if the checkpoint was set back, an earlier one if this batch was taken back meanwhile.
        """
        if transaction is None or self.plan.transaction is not None:
            return
        for entry in entries:
            newest = entry.transaction
            if newest is not None and newest.version < transaction.version:
                raise taken_back_error(transaction, self.container.url)
            if newest is not None and newest.version > transaction.version:
                where = "which was voided" if entry.version is None else f"in version {entry.version}"
                cause = f"the log has batch {newest.version} of this query already, {where}"
                step = (
                    "Either another driver runs on this checkpoint: stop one of the two. Or the checkpoint was set "
                    "back: restore the newer one, or have the later batches taken back, and start the query again, "
                    f"which writes them again: {self._gate.revert_command(self.plan.stream or 'STREAM', transaction)}."
                )
                batch = f"batch {transaction.version} of query {transaction.id}"
                raise ConflictError("commit", batch, cause, step)

    def _check_streams(self, streams: Sequence[str], transaction: Transaction | None, *, overwrite: bool) -> None:
        """`ConfigurationError` if the rows cannot go to a stream. Repeats of committed batches are not checked."""
        if transaction is not None:
            logs = [batches_stream(transaction.id)] if self.plan.rows_name_streams else streams
            known = (self.logs(log).remembered(transaction) for log in logs)
            if any(last is not None and last.version >= transaction.version for last in known):
                return
        _for_streams(partial(self._gate.check, overwrite=overwrite), streams)

    def _check_service(self, streams: Sequence[str], *, overwrite: bool) -> None:
        """Try once, before anything is committed, what this write asks of the service beyond plain blobs."""
        attributes, keeps = self.plan.attributes, overwrite and self.plan.keep_replaced is not None
        if overwrite or attributes.tags or attributes.tier:

            def probe(stream: str) -> None:
                notes = self.logs(stream).notes
                self.publisher.probe_once(stream, notes, attributes, deletes=overwrite, keeps=keeps)

            _for_streams(probe, streams)

    def _keep_schema(self, streams: Sequence[str]) -> None:
        """Put the writer schema beside each stream's log, before anything is committed that needs it."""
        plan = self.plan
        new = [stream for stream in streams if plan.schema not in self.logs(stream).notes.schemas]
        put = partial(_put_schema, self.container, data=plan.schema_json.encode())
        _for_streams(lambda stream: put(schema_name(stream, plan.schema)), new)

    def _keep_schema_again(self, streams: Sequence[str]) -> None:
        """Put the schema again after a stream's first commit: until then no log could show that the stream was deleted.

        The batch is committed, so a failure is not raised: the next batch puts the schema again.
        """
        try:
            self._keep_schema(streams)
        except AzureBlobError as error:
            logger.warning("the batch is committed, its writer schema could not be put once more (%s)", error)
            return
        for stream in streams:
            self.logs(stream).notes.schemas.add(self.plan.schema)
            self.logs(stream).notes.schema_texts[self.plan.schema] = self.plan.schema_json

    def _commit_by_batch_log(
        self, draft: Draft, transaction: Transaction, writers: Sequence[Mapping[str, Any]]
    ) -> list[AnyEntry]:
        """Commit the batch entry, then the part of each stream; again if another entry has replaced it."""
        log = self.logs(batches_stream(transaction.id))
        self._check_epochs(draft)
        entry = commit_entry(log, draft, self.publisher)
        while entry.transaction == transaction:
            parts = self._commit_parts(log, entry, writers) if isinstance(entry, LogEntry) else []
            newest = _newest_of(log, entry)
            if newest != entry:
                entry = newest
                continue
            failed = [each for part in parts if isinstance(part, NotPublished) for each in part.blobs]
            if not failed:
                return [part for part in parts if not isinstance(part, NotPublished)]
            if isinstance(entry, LogEntry) and entry.write_id == draft.write_id:
                raise self._unpublishable(transaction, failed)
            logger.warning("%s is committed again, it could not be published", transaction)
            entry = commit_entry(log, replacement(entry, draft), self.publisher)
        return [entry]

    def _unpublishable(self, transaction: Transaction, failed: Sequence[Unpublishable]) -> ConflictError:
        blob, cause = failed[0].blob, failed[0].cause
        place = f"batch {transaction.version} of {transaction.id} in {self.container.url}"
        step = (
            "Start the query again from its checkpoint, or run the batch again: what other streams have of it is "
            "replaced. If the service refused the blob, mend that first."
        )
        return ConflictError("publish", place, f"stream {blob.stream}, blob {blob.name}: {cause}", step)

    def _check_epochs(self, draft: Draft) -> None:
        """`FencedError` before the batch is committed, if one of its streams is at a higher epoch."""
        for stream in sorted({blob.stream for blob in draft.blobs}):
            log = self.logs(stream)
            head = log.head()
            if draft.epoch is not None or (head is not None and head.epoch is not None):
                head = log.refresh()
            check_epoch(log, head, draft.epoch)

    def _commit_parts(
        self, log: CommitLog, batch: LogEntry, writers: Sequence[Mapping[str, Any]]
    ) -> list[AnyEntry | NotPublished]:
        """Delete the blobs of batch entries that this one has replaced, then commit each stream's part of it."""
        replaced = _replaced_by(log, batch)
        self.publisher.remove([blob.removal for blob in replaced], batch)
        blobs_by_stream, control_by_stream = _by_stream(batch.blobs), split_by_stream(batch.control)
        for blob in replaced:
            blobs_by_stream.setdefault(blob.stream, [])
        drafts = {
            stream: replace(
                self._draft("append", batch.transaction, of_stream, control_by_stream.get(stream, ()), writers),
                batch_version=batch.version,
                commit_info=batch.commit_info,
            )
            for stream, of_stream in sorted(blobs_by_stream.items())
        }
        check_named(batch.rows, _rows(drafts.values()), "the parts of the batch")
        publisher = replace(self.publisher, admit=partial(self._gate.admit, part_of=batch.transaction))
        return _for_streams(lambda stream: commit_part(self.logs(stream), drafts[stream], publisher), list(drafts))

    def _draft(
        self,
        operation: Operation,
        transaction: Transaction | None,
        blobs: Sequence[BlobEntry],
        control: Iterable[Mapping[str, Any]],
        writers: Iterable[Mapping[str, Any]] = (),
    ) -> Draft:
        return Draft(
            write_id=self.new_id(),
            timestamp=utc(self.clock).isoformat(timespec="milliseconds"),
            operation=operation,
            transaction=transaction,
            epoch=self.plan.epoch,
            blobs=tuple(blobs),
            control=tuple(control),
            metrics=batch_metrics(blobs),
            writers=tuple(writers),
            attributes=self.plan.attributes,
            commit_info=self.plan.commit_info,
            keep=self.plan.keep_replaced,
        )


def _rows(counted: Iterable[BlobEntry | Draft]) -> int:
    return sum(each.rows for each in counted)


def _by_stream(blobs: Iterable[BlobEntry]) -> dict[str, list[BlobEntry]]:
    by_stream: dict[str, list[BlobEntry]] = defaultdict(list)
    for blob in blobs:
        by_stream[blob.stream].append(blob)
    return by_stream


def _newest_of(log: CommitLog, entry: AnyEntry) -> AnyEntry:
    """The batch entry in effect now: another driver may have replaced the one whose parts were committed."""
    log.refresh()
    last = log.remembered(entry.transaction)
    return entry if last is None or last.entry == entry.version else log.read(last.entry)


def _replaced_by(log: CommitLog, batch: LogEntry) -> list[BlobEntry]:
    """The blobs of all batch entries that this one has replaced."""
    blobs: list[BlobEntry] = []
    while batch.replaces is not None:
        batch = log.read(batch.replaces)
        blobs += batch.blobs
    return blobs


def _for_streams(act: Callable[[str], Result], streams: Sequence[str]) -> list[Result]:
    """Concurrently. Nothing of an attempt that fails still runs when the batch is repeated."""
    return concurrent_map(act, streams, _STREAMS_AT_ONCE, after_error="wait")


def _put_schema(container: BlobContainer, name: str, data: bytes) -> None:
    """Put a writer schema unless it is there. Its name is its fingerprint, so every writer puts the same bytes."""

    def read_back(answer: Doubtful) -> Conflict | None:
        return answer if isinstance(answer, Conflict) else None

    def unresolved(answer: Doubtful) -> TransientError:
        place, cause = f"blob {name} in {container.url}", f"no answer could be had ({answer})"
        return TransientError("put", place, cause, "Run the batch again.", attempts=ATTEMPTS)

    request_and_read_back(lambda: container.put(name, data, condition=IF_ABSENT), read_back, unresolved)

"""The driver's side of one batch: the tasks' messages in, one published log entry per stream out.

    messages ─ by stream ─ writer schemas ─ (decision over all streams) ─ commit each stream's log

A batch whose rows name their streams (`streamColumn`) is decided once, in the log of its transaction, before any
stream's log: a repeat that would spread rows over other streams then finds the decision and follows it. When some of
its staged blocks have expired, the decision as a whole is replaced: first all its blobs are removed from every stream,
then each stream's log follows the new decision.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from azure_account.account import IF_ABSENT, Conflict, Done
from azure_account.errors import ConflictError, TransientError, describe
from azureblob_source.log.commit import commit, decide, follow, repeated, replacement
from azureblob_source.log.entry import LogEntry, Transaction
from azureblob_source.log.fencing import check_epoch
from azureblob_source.log.naming import batches_stream, schema_name
from azureblob_source.log.publish import Publisher
from azureblob_source.metrics import batch_metrics
from azureblob_source.write.control_records import merged, split_by_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from azure_account.account import BlobContainer
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry
    from azureblob_source.log.publish import Unpublishable
    from azureblob_source.write.staging import StagedTask, WritePlan

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_STREAMS_AT_ONCE = 8
_PUT_ATTEMPTS = 5


@dataclass(frozen=True)
class BatchCommitter:
    """Commits batches of one write. `logs` gives the process's one `CommitLog` of a stream."""

    plan: WritePlan
    container: BlobContainer
    logs: Callable[[str], CommitLog]
    new_id: Callable[[], str]
    utc: Callable[[], datetime]

    @property
    def publisher(self) -> Publisher:
        """How blobs become visible."""
        options = self.plan.options
        return Publisher(self.container, deadline=options.close_timeout, unique_names=options.random_suffix)

    def commit(
        self, staged: Sequence[StagedTask], transaction: Transaction | None, *, overwrite: bool = False
    ) -> list[LogEntry]:
        """Decide and publish a batch. Called again with other messages when the batch is repeated.

        Returns the entries that stand for the batch; none if it has no rows.
        """
        options = self.plan.options
        if options.at_least_once:
            transaction = None
        blobs = [blob for task in staged for blob in task.blobs]
        streams = sorted({blob.stream for blob in blobs})
        self._keep_schema(streams)
        given = options.router.stream
        self._check_service(streams or ([] if given is None else [given]), overwrite=overwrite)
        writers = [{**task.writer, "metrics": task.metrics} for task in staged if task.blobs]
        control = merged(message for task in staged for message in task.control)
        if options.router.stream_column is not None and transaction is not None:
            entries = self._commit_streams(self._draft("append", transaction, blobs, control), transaction, writers)
        else:
            operation = "overwrite" if overwrite else "append"
            entries = self._commit_each(operation, transaction, blobs, control, writers)
        self._check_order(transaction, entries)
        return entries

    def _commit_each(
        self,
        operation: str,
        transaction: Transaction | None,
        blobs: Sequence[BlobEntry],
        control: Sequence[Mapping[str, Any]],
        writers: Sequence[Mapping[str, Any]],
    ) -> list[LogEntry]:
        """Commit each stream's part by itself. A batch without rows finishes what an earlier run of it has decided."""
        by_stream, told = _by_stream(blobs), split_by_stream(control)
        stream = self.plan.options.router.stream
        if operation == "overwrite" and stream is not None:
            by_stream.setdefault(stream, [])
        if not by_stream and stream is not None and transaction is not None:
            entry = repeated(self.logs(stream), self._draft(operation, transaction, (), ()), self.publisher)
            return [] if entry is None else [entry]
        drafts = {
            stream: self._draft(operation, transaction, of_stream, told.get(stream, ()), writers)
            for stream, of_stream in sorted(by_stream.items())
        }
        return _each(lambda stream: commit(self.logs(stream), drafts[stream], self.publisher), list(drafts))

    def _check_order(self, transaction: Transaction | None, entries: Sequence[LogEntry]) -> None:
        """`ConflictError` if a streaming query commits an older batch than the newest of its batches in a log."""
        for entry in entries:
            newest = entry.transaction
            if (
                self.plan.options.transaction is None
                and transaction
                and newest
                and newest.version > transaction.version
            ):
                cause = f"the log has batch {newest.version} of this query already, in version {entry.version}"
                step = (
                    "Either another driver runs on this checkpoint: stop one of the two. Or the checkpoint was set "
                    "back: restore the newer one, or start with a new checkpoint, which reads its input from the start."
                )
                batch = f"batch {transaction.version} of query {transaction.id}"
                raise ConflictError(describe("commit", batch, cause, step))

    def _check_service(self, streams: Sequence[str], *, overwrite: bool) -> None:
        """Try once, before anything is decided, what this write asks of the service beyond plain blobs."""
        attributes = self.plan.options.attributes
        if overwrite or attributes.tags or attributes.tier:
            new = [stream for stream in streams if (attributes, overwrite) not in self.logs(stream).checked]
            check = partial(self.publisher.check_attributes, attributes=attributes, deletes=overwrite)
            _each(check, new)
            for stream in new:
                self.logs(stream).checked.append((attributes, overwrite))

    def _keep_schema(self, streams: Sequence[str]) -> None:
        """Keep the writer schema beside each stream's log, before anything that needs it is decided."""
        avro = self.plan.avro
        new = [stream for stream in streams if avro.fingerprint not in self.logs(stream).schemas]
        _each(lambda stream: _put_once(self.container, schema_name(stream, avro.fingerprint), avro.json.encode()), new)
        for stream in new:
            self.logs(stream).schemas.add(avro.fingerprint)

    def _commit_streams(
        self, draft: LogEntry, transaction: Transaction, writers: Sequence[Mapping[str, Any]]
    ) -> list[LogEntry]:
        log = self.logs(batches_stream(transaction.id))
        self._check_epochs(draft)
        decision = decide(log, draft, self.publisher, publishes=False)
        while decision.transaction == transaction:
            followed = self._follow(log, decision, writers, fresh=decision.write_id == draft.write_id)
            standing = _newest_decision(log, decision)
            if standing != decision:
                decision = standing
                continue
            lost = [each for _, of_stream in followed for each in of_stream]
            if not lost:
                return [entry for entry, _ in followed]
            if decision.write_id == draft.write_id:
                raise self._unpublishable(transaction, lost)
            logger.warning("batch %s is decided anew, it could not be published", transaction)
            decision = decide(log, replacement(decision, draft), self.publisher, publishes=False)
        return [decision]

    def _unpublishable(self, transaction: Transaction, lost: Sequence[Unpublishable]) -> ConflictError:
        stream, cause = lost[0].blob.stream, lost[0].cause
        place = f"batch {transaction.version} of {transaction.id} in {self.container.url}"
        step = (
            "Start the query again from its checkpoint, or run the batch again: what other streams have of it is "
            "replaced. If the service refused the blob, mend that first."
        )
        return ConflictError(describe("publish", place, f"stream {stream}, blob {lost[0].blob.name}: {cause}", step))

    def _check_epochs(self, draft: LogEntry) -> None:
        """`FencedError` before the batch is decided, if one of its streams refuses it."""
        for stream in sorted({blob.stream for blob in draft.blobs}):
            log = self.logs(stream)
            head = log.head()
            if draft.epoch is not None or (head is not None and head.epoch is not None):
                head = log.refresh()
            check_epoch(log, head, draft.epoch)

    def _follow(
        self, log: CommitLog, decision: LogEntry, writers: Sequence[Mapping[str, Any]], *, fresh: bool
    ) -> list[tuple[LogEntry, Sequence[Unpublishable]]]:
        """Do in every stream's log what is decided; what earlier decisions on this batch had published goes first."""
        replaced = _replaced_by(log, decision)
        superseded = frozenset(blob.name for blob in replaced)
        self.publisher.remove(sorted(superseded), decision)
        by_stream, told = _by_stream(decision.blobs), split_by_stream(decision.control)
        for blob in replaced:
            by_stream.setdefault(blob.stream, [])
        drafts = {
            stream: replace(
                self._draft("append", decision.transaction, of_stream, told.get(stream, ()), writers),
                decision=decision.version,
            )
            for stream, of_stream in sorted(by_stream.items())
        }
        each = partial(follow, publisher=self.publisher, superseded=superseded, fresh=fresh)
        return _each(lambda stream: each(self.logs(stream), drafts[stream]), list(drafts))

    def _draft(
        self,
        operation: str,
        transaction: Transaction | None,
        blobs: Sequence[BlobEntry],
        control: Iterable[Mapping[str, Any]],
        writers: Iterable[Mapping[str, Any]] = (),
    ) -> LogEntry:
        return LogEntry(
            version=-1,
            write_id=self.new_id(),
            timestamp=self.utc().isoformat(timespec="milliseconds"),
            operation=operation,
            transaction=transaction,
            epoch=self.plan.options.epoch,
            blobs=tuple(blobs),
            control=tuple(control),
            metrics=batch_metrics(blobs),
            writers=tuple(writers),
            attributes=self.plan.options.attributes,
        )


def _by_stream(blobs: Iterable[BlobEntry]) -> dict[str, list[BlobEntry]]:
    by_stream: dict[str, list[BlobEntry]] = defaultdict(list)
    for blob in blobs:
        by_stream[blob.stream].append(blob)
    return by_stream


def _newest_decision(log: CommitLog, decision: LogEntry) -> LogEntry:
    """The decision that stands for the transaction now: another driver may have replaced the one that was followed."""
    head = log.refresh()
    last = None if head is None or decision.transaction is None else head.transactions.get(decision.transaction.id)
    return decision if last is None or last.entry == decision.version else log.read(last.entry)


def _replaced_by(log: CommitLog, decision: LogEntry) -> list[BlobEntry]:
    """The blobs of all decisions that this one has replaced."""
    blobs: list[BlobEntry] = []
    while decision.replaces is not None:
        decision = log.read(decision.replaces)
        blobs += decision.blobs
    return blobs


def _each(act: Callable[[str], Result], streams: Sequence[str]) -> list[Result]:
    """`act` on every stream, several at a time; the first error when all have ended."""
    if len(streams) < 2:  # noqa: PLR2004 - nothing to do side by side
        return [act(stream) for stream in streams]
    with ThreadPoolExecutor(_STREAMS_AT_ONCE, "azureblob-commit") as pool:
        return list(pool.map(act, streams))


def _put_once(container: BlobContainer, name: str, data: bytes) -> None:
    """Put a blob whose name stands for its content, unless it is there. A lost answer is cleared up by a repeat."""
    for _ in range(_PUT_ATTEMPTS):
        outcome = container.put(name, data, condition=IF_ABSENT)
        if isinstance(outcome, Done | Conflict):
            return
    message = describe(
        "put",
        f"blob {name} in {container.url}",
        f"no answer could be had ({outcome})",
        "Run the batch again.",
        attempts=_PUT_ATTEMPTS,
    )
    raise TransientError(message)

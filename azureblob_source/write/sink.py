"""Spark's writers: `write` on the executors, `commit` and `abort` on the driver.

    executor: write(Arrow batches) ─ staging.stage ─► CommitMessage (pickled)
    driver:   commit([CommitMessage], batchId) ─ batch.BatchCommitter

Each of the two imports its module when it is called: Spark starts other processes for tasks than for commits, and these
need neither Arrow nor the encoder.

How Spark calls them (pyspark 4.0–4.3): each task and each commit has a writer object of its own, in another process.
`write` does not get the batch id; it reads it from the task's local properties. After `commit` has raised, Spark calls
`abort` with all messages and runs the batch again. After `query.stop()` a task goes on for some seconds. Therefore
tasks publish nothing (except with `at-least-once`), the messages hold all that a commit needs, and `abort` deletes
nothing. When `commit` is called, the checkpoint has the offsets of the batch, and not yet that it is done.
How a batch is committed: the head of `log/commit.py`.
"""

from __future__ import annotations

import logging
import os
import pickle
import uuid
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from azureblob_source import metrics
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.naming import schema_name
from azureblob_source.log.publishing.fencing import publish_unless_fenced
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.write.destination import container_of, logs_of
from azureblob_source.write.staged_task import StagedTask
from azureblob_source.write.stream_gate import StreamGate
from foundation.errors import ConflictError
from foundation.worker_modules import keep_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from azure_account.container import BlobContainer
    from azure_account.options.settings import AccountSettings
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.write.commit_plan import CommitPlan
    from azureblob_source.write.planning import WritePlan

logger = logging.getLogger("azureblob_source")


@dataclass
class CommitMessage(WriterCommitMessage):
    """One task's message to the driver: a `StagedTask` as JSON."""

    staged: str


class _Sink:
    """What the batch writer and the streaming writer share."""

    def __init__(self, plan: WritePlan, *, overwrite: bool) -> None:
        self.plan: CommitPlan = plan.of_commit
        self.overwrite = overwrite
        self._tasks = pickle.dumps(plan)  # as bytes, so that Spark's process for the commit does not load it

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CommitMessage:
        """Stage one task's rows. Called on an executor, once for each attempt of a task, a speculative one too."""
        from azureblob_source.write.open_blobs import BlobIds  # noqa: PLC0415 - see the head of this module
        from azureblob_source.write.staging import StreamCalls, stage  # noqa: PLC0415

        plan: WritePlan = pickle.loads(self._tasks)  # noqa: S301 - of `__init__`
        container = container_of(self.plan)
        keep_modules()
        writer = _task()
        source = f"{writer.get('query', 'batch')}/{writer['task']}"
        try:
            staged = stage(
                iterator,
                replace(plan, task=writer["task"]),
                container,
                names=BlobIds(os.urandom, suffixed=self.plan.unique_names),
                calls=StreamCalls(self._admit_named(container), self._publish_at_once(container)),
            )
        except Exception:
            metrics.count({"messageErrors": 1}, system=container.name, source=source)
            raise
        metrics.count(staged.metrics, system=container.name, source=source)
        return CommitMessage(replace(staged, writer={**writer, **staged.writer}).to_json())

    def _publish_at_once(self, container: BlobContainer) -> Callable[[BlobEntry], object] | None:
        """Publish a finished blob, with `at-least-once`. What cannot be published is left to the driver's commit."""
        plan = self.plan
        if not plan.at_least_once:
            return None
        log_of = cache(partial(CommitLog, container))
        replaces_all = self.overwrite and not plan.overwrite_partitions
        publisher = Publisher(container) if replaces_all else Publisher(container, admit=StreamGate(plan, log_of).admit)
        return publish_unless_fenced(log_of, publisher, plan.attributes, plan.epoch)

    def _admit_named(self, container: BlobContainer) -> Callable[[str], object] | None:
        """Refuse a stream that the rows do not fit, with `streamColumn`, before a block is staged for it.

        A stream whose folder has the schema has had it in its log, in general, which the commit compares again. So this
        takes one request for a stream and process. The one stream of other writes was checked on the driver.
        """
        plan = self.plan
        if not plan.rows_name_streams:
            return None

        def admit(stream: str) -> None:
            key = (plan.account, container.name, stream, plan.schema)
            if key not in _admitted and container.properties(schema_name(stream, plan.schema)) is None:
                StreamGate(plan, cache(partial(CommitLog, container))).check(stream)
            _admitted.add(key)

        return admit

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803
        """Commit and publish what the tasks have staged, once all have succeeded.

        batchId: of a streaming query, which calls this again for the same batch after a failure or restart.
        """
        from azureblob_source.write.batch import BatchCommitter  # noqa: PLC0415 - a task need not load it

        if self.plan.backup is not None and batchId is not None:
            from azureblob_source.write.checkpoint_backup import back_up  # noqa: PLC0415 - few queries have one

            back_up(self.plan.backup, batchId, self.plan.epoch)
        staged = _staged_in(messages)
        if len(staged) < len(messages):
            lost = f"{len(messages) - len(staged)} of {len(messages)} tasks sent no message; nothing was committed."
            raise ConflictError(f"{lost} Run the write again.")
        container = container_of(self.plan)
        committer = BatchCommitter(self.plan, container, logs_of(self.plan, container), lambda: uuid.uuid4().hex)
        transaction, begun = self._transaction(staged, batchId), committer.clock.monotonic()
        entries = committer.commit(staged, transaction, overwrite=self.overwrite)
        _report(self.plan, staged, entries, committer.clock.monotonic() - begun)
        metrics.mark_commits(entries, container=container.name, stream=self.plan.stream)
        if not self.plan.at_least_once:  # else the tasks have counted the blobs that they published
            commits = {"blobCommits": sum(entry.metrics.get("blobCommits", 0) for entry in entries)}
            metrics.count(commits, system=container.name, source=transaction.id if transaction else "batch")

    def _transaction(self, staged: Sequence[StagedTask], batch: int | None) -> Transaction | None:
        given = self.plan.transaction
        if given is not None or batch is None:
            return given
        queries = {task.writer["query"] for task in staged if "query" in task.writer}
        if len(queries) != 1:
            text = f"The tasks of batch {batch} report {len(queries)} queries instead of one; nothing was committed."
            raise ConflictError(f"{text} Start the query again.")
        return Transaction(queries.pop(), batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803, ARG002
        """Log a warning. Staged blocks expire by themselves, and a batch that is committed stays.

        Called when a task or the commit has failed, or the query was stopped during a batch.
        """
        logger.warning(
            "write to %s aborted; its %d staged blobs expire, unless the batch is committed in the log",
            self.plan.address, sum(len(task.blobs) for task in _staged_in(messages)),
        )  # fmt: skip


class BatchWriter(_Sink, DataSourceArrowWriter):
    """`df.write.format("azureblob")`."""


class StreamWriter(_Sink, DataSourceStreamWriter, DataSourceArrowWriter):
    """`df.writeStream.format("azureblob")`.

    It has both base classes, because pyspark 4.0 passes Arrow batches only to a `DataSourceArrowWriter`; later versions
    accept either.
    """


def _staged_in(messages: Sequence[WriterCommitMessage | None]) -> list[StagedTask]:
    return [StagedTask.from_json(message.staged) for message in messages if isinstance(message, CommitMessage)]


def _report(plan: CommitPlan, staged: Sequence[StagedTask], entries: Sequence[LogEntry], seconds: float) -> None:
    """Log what is committed, and warn if that is another write of the transaction, so that these rows are dropped."""
    blobs = [blob for entry in entries for blob in entry.blobs]
    ours = {blob.attempt for task in staged for blob in task.blobs} <= {blob.attempt for blob in blobs}
    if entries:
        where = f"version {entries[0].version}" if len(entries) == 1 else f"{len(entries)} streams"
        logger.info(
            "%s: %s %s committed in %s: %d rows in %d blobs with %d bytes, in %.2f s",
            plan.address, entries[0].transaction or "a write", "is" if ours else "was", where,
            sum(blob.rows for blob in blobs), len(blobs), sum(blob.size for blob in blobs), seconds,
        )  # fmt: skip
    if plan.transaction is not None and not ours:
        logger.warning(
            "the rows of this write to %s were dropped, because a write with the same `txnAppId` and this or a later "
            "`txnVersion` was committed before. That is right for a repeat of one write; a second write needs a "
            "`txnAppId` of its own",
            plan.address,
        )


_admitted: set[tuple[AccountSettings, str, str, str]] = set()
"""Streams that rows of a schema fitted when a task of this process looked."""


def _task() -> dict[str, Any]:
    """The task, attempt, query and batch that this process works on, as far as Spark sets them."""
    context = TaskContext.get()
    if context is None:
        return {"task": 0}
    writer: dict[str, Any] = {"task": context.partitionId(), "attempt": context.attemptNumber()}
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if query is not None:
        writer["query"] = query
    if batch is not None:
        writer["batch"] = int(batch)
    return writer

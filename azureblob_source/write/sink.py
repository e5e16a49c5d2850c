"""Spark's writers: `write` on the executors, `commit` and `abort` on the driver.

    executor: write(Arrow batches) ─ staging.stage ─► TaskCommit (pickled)
    driver:   commit([TaskCommit], batchId) ─ batch.BatchCommitter ─► one log entry per stream, blobs published

What Spark promises and what it does not (pyspark 4.0–4.3): a writer object is built anew for every task and every
commit, in other processes; `write` is not told the batch, but finds it in the task's local properties; after `commit`
has raised, `abort` is called with all messages and the batch is run again; on `query.stop()` a task lives on for
seconds. Hence nothing is published by tasks, the messages carry everything, and `abort` deletes nothing.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from azure_account import connect
from azure_account.errors import ConfigurationError, ConflictError, NotFoundError, describe
from azureblob_source import metrics
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.fencing import publish_unless_fenced
from azureblob_source.log.publish import Publisher
from azureblob_source.spark_types import arrow_of, well_formed
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.options import sink_options
from azureblob_source.write.staging import RandomNames, StagedTask, WritePlan, plan_write, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from azure_account.account import BlobContainer
    from azure_account.options.settings import AccountSettings
    from azureblob_source.location import Location
    from azureblob_source.log.entry import BlobEntry, LogEntry

logger = logging.getLogger(__name__)


@dataclass
class TaskCommit(WriterCommitMessage):
    """One task's message to the driver: a `StagedTask` as JSON."""

    staged: str


class _Sink:
    """What the batch and the streaming writer share."""

    def __init__(self, plan: WritePlan, *, overwrite: bool) -> None:
        self.plan = plan
        self.overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Stage one task's rows. Called on an executor; may run twice for one task, or for a task that has lost."""
        container = container_of(self.plan)
        who = _task()
        source = f"{who.get('query', 'batch')}/{who['task']}"
        try:
            staged = stage(
                map(well_formed, iterator),
                self.plan,
                container,
                names=RandomNames(os.urandom, suffixed=self.plan.options.random_suffix),
                utc=_utc,
                clock=time.monotonic,
                publish=self._publish_at_once(container),
            )
        except Exception:
            metrics.count({"messageErrors": 1}, system=container.name, source=source)
            raise
        metrics.count(staged.metrics, system=container.name, source=source)
        return TaskCommit(replace(staged, writer={**who, **staged.writer}).to_json())

    def _publish_at_once(self, container: BlobContainer) -> Callable[[BlobEntry], object] | None:
        """With `at-least-once` a task publishes its blobs itself; the driver's commit finds what it could not."""
        options = self.plan.options
        if not options.at_least_once:
            return None
        log_of = cache(partial(CommitLog, container))
        return publish_unless_fenced(log_of, Publisher(container), options.attributes, options.epoch)

    def commit_batch(self, messages: Sequence[WriterCommitMessage | None], batch: int | None) -> list[LogEntry]:
        """Decide and publish what the tasks have staged."""
        staged = [StagedTask.from_json(message.staged) for message in messages if isinstance(message, TaskCommit)]
        if len(staged) < len(messages):
            lost = f"{len(messages) - len(staged)} of {len(messages)} tasks left no message; nothing was committed."
            raise ConflictError(f"{lost} Run the write again.")
        container = container_of(self.plan)
        committer = BatchCommitter(self.plan, container, self._logs_of(container), lambda: uuid.uuid4().hex, _utc)
        transaction = self._transaction(staged, batch)
        entries = committer.commit(staged, transaction, overwrite=self.overwrite)
        if self.plan.options.transaction is not None:
            _warn_of_dropped(self.plan.options.location, staged, entries)
        for entry in entries:
            commits = {"blobCommits": entry.metrics.get("blobCommits", 0)}
            metrics.count(commits, system=container.name, source=transaction.id if transaction else "batch")
        return entries

    def _transaction(self, staged: Sequence[StagedTask], batch: int | None) -> Transaction | None:
        given = self.plan.options.transaction
        if given is not None or batch is None:
            return given
        queries = {task.writer["query"] for task in staged if "query" in task.writer}
        if len(queries) != 1:
            text = f"the tasks of batch {batch} name {len(queries)} queries instead of one; nothing was committed."
            raise ConflictError(f"{text} Start the query again.")
        return Transaction(queries.pop(), batch)

    def _logs_of(self, container: BlobContainer) -> Callable[[str], CommitLog]:
        """The process's logs: they remember their heads, so that a commit need not look for them."""
        account = self.plan.options.account

        def log(stream: str) -> CommitLog:
            return _logs.setdefault((account, container.name, stream), CommitLog(container, stream))

        return log

    def abort_batch(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log only. Staged blocks expire by themselves, and what is decided must not be touched."""
        blobs = [StagedTask.from_json(message.staged).blobs for message in messages if isinstance(message, TaskCommit)]
        logger.warning(
            "write to %s aborted; %d staged blobs of it are left to expire unless the batch was decided",
            self.plan.options.location, sum(map(len, blobs)),
        )  # fmt: skip


class BatchWriter(_Sink, DataSourceArrowWriter):
    """`df.write.format("azureblob")`."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the write. Called once, when all tasks have succeeded."""
        self.commit_batch(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Called when a task or the commit has failed."""
        self.abort_batch(messages)


class StreamWriter(_Sink, DataSourceStreamWriter, DataSourceArrowWriter):
    """`df.writeStream.format("azureblob")`.

    Of both kinds, because pyspark 4.0 hands Arrow batches only to a `DataSourceArrowWriter`, and later ones ask for
    either; so one class takes Arrow batches on all of them.
    """

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        """Publish a micro-batch. Called again for the same batch after a failure or restart."""
        self.commit_batch(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803, ARG002
        """Called when a task or the commit has failed, or the query was stopped in the midst of a batch."""
        self.abort_batch(messages)


def write_plan(
    raw: Mapping[str, str],
    schema: StructType,
    env: Mapping[str, str],
    *,
    overwrite: bool,
    streaming: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
) -> WritePlan:
    """Everything about a write that can be checked before the first task, the container among it.

    Spark asks for a streaming query's plan in each micro-batch: its container is looked at once a minute.
    """
    options = sink_options(raw, env)
    if streaming and options.transaction is not None:  # it would let one micro-batch pass, and drop all others
        message = (
            "options `txnAppId` and `txnVersion` are for df.write: a streaming query is recognised by its checkpoint "
            "and its batches. Leave them out here, or set them on the df.write within `foreachBatch`."
        )
        raise ConfigurationError(message)
    if overwrite and options.router.stream_column is not None:
        message = (
            "mode `overwrite` (as the output mode `complete`) replaces one stream, but option `streamColumn` names "
            "many. Name the stream in the path, or append."
        )
        raise ConfigurationError(message)
    plan = plan_write(options, arrow_of(schema))
    key, now = (options.account, options.location.container), monotonic()
    if not streaming or now - _seen.get(key, -_SEEN_SECONDS) >= _SEEN_SECONDS:
        prepare(container_of(plan), create=options.create_container)
        _seen[key] = now
    return plan


_SEEN_SECONDS = 60.0
_seen: dict[tuple[AccountSettings, str], float] = {}
"""When the process last saw a container, on its monotonic clock."""


def container_of(plan: WritePlan) -> BlobContainer:
    """The container of a write. Makes no request; connections live as long as the process."""
    return connect(plan.options.account).container(plan.options.location.container)


def prepare(container: BlobContainer, *, create: bool) -> None:
    """See that the container exists; if it does not, create it, or raise `NotFoundError` where that is not wanted.

    It is looked at by way of a blob in it: a SAS of the container lets nobody ask for the container itself.
    """
    try:
        container.properties(_NO_BLOB)
    except NotFoundError as absent:
        if not create:
            step = "Check its name, create it first, or leave out option `createContainer`."
            cause = "it does not exist, and option `createContainer` is false"
            raise NotFoundError(describe("write to container", container.url, cause, step)) from absent
        _create(container)


def _create(container: BlobContainer) -> None:
    try:
        if container.create():
            logger.warning("container %s did not exist and was created", container.url)
            for known in [key for key in _logs if key[1] == container.name]:
                del _logs[known]  # its logs went with the container of this name that there was before
    except ConfigurationError as refused:
        step = "Check its name, or create it first by an identity that may."
        cause = f"it does not exist and cannot be created ({refused})"
        raise ConfigurationError(describe("write to container", container.url, cause, step)) from refused


_NO_BLOB = "_container"
"""A name that no blob of this project has."""


def _warn_of_dropped(location: Location, staged: Sequence[StagedTask], entries: Sequence[LogEntry]) -> None:
    """Say that the rows of a write were dropped, since an earlier one of the same transaction stands."""
    ours = {blob.attempt for task in staged for blob in task.blobs}
    kept = {blob.attempt for entry in entries for blob in entry.blobs}
    if not ours <= kept:
        logger.warning(
            "the rows of this write to %s were dropped, for a write with the same `txnAppId` and this or a later "
            "`txnVersion` was committed before. That is right for a repeat of one write; a second write needs a "
            "`txnAppId` of its own",
            location,
        )


_logs: dict[tuple[AccountSettings, str, str], CommitLog] = {}


def _utc() -> datetime:
    return datetime.now(timezone.utc)


def _task() -> dict[str, Any]:
    """Which task of which batch of which query this is, as far as Spark says."""
    context = TaskContext.get()
    if context is None:
        return {"task": 0}
    who: dict[str, Any] = {"task": context.partitionId(), "attempt": context.attemptNumber()}
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if query is not None:
        who["query"] = query
    if batch is not None:
        who["batch"] = int(batch)
    return who

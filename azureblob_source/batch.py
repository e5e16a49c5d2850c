"""The driver's side of one batch: the tasks' messages in, one published log entry per stream out.

    messages ─ by stream ─ writer schemas ─ (decision over all streams) ─ commit each stream's log

A batch whose rows name their streams (`streamColumn`) is decided once, in the log of its transaction, before any
stream's log: a repeat that would spread rows over other streams then finds the decision and follows it.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from azure_account.account import IF_ABSENT
from azureblob_source.commit import Publisher, commit, decide
from azureblob_source.log_entry import LogEntry, Transaction
from azureblob_source.metrics import total
from azureblob_source.naming import batches_stream, schema_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from azure_account.account import BlobContainer
    from azureblob_source.commit_log import CommitLog
    from azureblob_source.log_entry import BlobEntry
    from azureblob_source.staging import StagedTask, WritePlan

_STREAMS_AT_ONCE = 8


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
        if options.router.stream_column is not None and transaction is not None:
            blobs = self._decide_streams(blobs, transaction)
        by_stream: dict[str, list[BlobEntry]] = defaultdict(list)
        for blob in blobs:
            by_stream[blob.stream].append(blob)
        if overwrite and options.router.stream is not None:
            by_stream.setdefault(options.router.stream, [])
        writers = [{**task.writer, "metrics": task.metrics} for task in staged if task.blobs]
        drafts = {
            stream: self._draft("overwrite" if overwrite else "append", transaction, of_stream, writers)
            for stream, of_stream in sorted(by_stream.items())
        }
        if len(drafts) == 1:
            return [self._commit_stream(*item) for item in drafts.items()]
        with ThreadPoolExecutor(_STREAMS_AT_ONCE, "azureblob-commit") as pool:
            return list(pool.map(self._commit_stream, drafts.keys(), drafts.values()))

    def _commit_stream(self, stream: str, draft: LogEntry) -> LogEntry:
        log = self.logs(stream)
        avro = self.plan.avro
        if draft.blobs and avro.fingerprint not in log.schemas:
            self.container.put(schema_name(stream, avro.fingerprint), avro.json.encode(), condition=IF_ABSENT)
            log.schemas.add(avro.fingerprint)
        return commit(log, draft, self.publisher)

    def _decide_streams(self, blobs: Sequence[BlobEntry], transaction: Transaction) -> Sequence[BlobEntry]:
        log = self.logs(batches_stream(transaction.id))
        return decide(log, self._draft("append", transaction, blobs, ()), None).blobs

    def _draft(
        self,
        operation: str,
        transaction: Transaction | None,
        blobs: Sequence[BlobEntry],
        writers: Iterable[Mapping[str, Any]],
    ) -> LogEntry:
        return LogEntry(
            version=-1,
            write_id=self.new_id(),
            timestamp=self.utc().isoformat(timespec="milliseconds"),
            operation=operation,
            transaction=transaction,
            epoch=self.plan.options.epoch,
            blobs=tuple(blobs),
            metrics=batch_metrics(blobs),
            writers=tuple(writers),
            attributes=self.plan.options.attributes,
        )


def batch_metrics(blobs: Sequence[BlobEntry]) -> dict[str, int]:
    """The counters of a batch, as its blobs tell them."""
    return total(
        {
            "messagesSent": blob.rows,
            "bytesSent": blob.uncompressed,
            "bytesCompressed": blob.size,
            "blockUploads": blob.blocks,
            "blobCommits": 1,
        }
        for blob in blobs
    )

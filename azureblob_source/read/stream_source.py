"""Spark's streaming reader: the rows of each micro-batch, or another view of the entries that it covers.

driver:   Follower ─► log entries ─► SchemaGuard ─► new blobs ─► splits ─► partitions
executor: read(partition), as for a snapshot (`source.py`)
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader

from azure_account.documents.form import needs_newer_release
from azureblob_source.metrics import ReadMetrics
from azureblob_source.options import FAIL, LATEST
from azureblob_source.read.following import Follower, SchemaGuard, TriggerLimits
from azureblob_source.read.query_schema import QuerySchema
from azureblob_source.read.source import BaseReader, EntriesPartition, SplitsPartition, read_plan
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, NotFoundError

try:  # pyspark 4.2
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark before 4.2 runs Trigger.AvailableNow as one batch over `latestOffset`."""


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from arrow_avro import AvroSchema
    from azureblob_source.read.following import Backlog
    from azureblob_source.read.source import ReadPlan

logger = logging.getLogger("azureblob_source")

Offset: TypeAlias = "dict[str, Any]"
"""`version`: of the last entry read. `start`: where the query began; None where Spark before 4.2 has not asked for it.
`log`: the log's identity, None as long as there is no log."""
_OFFSET_FIELDS = frozenset(("version", "start", "log"))


Discovery: TypeAlias = "Callable[[], Mapping[str, object]]"
"""Finds what other programs have written to the stream's folder, adds it to the log, and says what it has found."""


def stream_reader(
    raw: Mapping[str, str],
    schema: StructType,
    env: Mapping[str, str],
    inferred: AvroSchema | None,
    discovery: Callable[[ReadPlan], Discovery | None] = lambda _: None,
) -> DataSourceStreamReader:
    """The reader of a streaming query. If the options are wrong, its methods raise the error: see `RefusedReader`.

    discovery: of a plan; None if the stream's writers use its log.
    """
    try:
        plan = read_plan(raw, env, streaming=True, inferred=inferred)
        return StreamReader(plan, schema, discovery(plan))
    except AzureBlobError as error:
        return RefusedReader(error)


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises the error that a query cannot start for, whichever method Spark calls first.

    Raised by `DataSource.streamReader`, the error would be shown before one of Spark's own clean-up
    (`UnboundLocalError: … 'reader'`), which users take for the cause.
    """

    def __init__(self, error: AzureBlobError) -> None:
        self._error = error

    def _refuse(self, *_: object) -> NoReturn:
        raise self._error

    initialOffset = latestOffset = partitions = read = _refuse  # type: ignore[assignment] # noqa: N815 - Spark's names
    getDefaultReadLimit = prepareForTriggerAvailableNow = reportLatestOffset = _refuse  # noqa: N815


class StreamReader(BaseReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("azureblob")`. Versions m+1 … n are read at the offset `{"version": n, "start": m}`."""

    def __init__(self, plan: ReadPlan, schema: StructType, discover: Discovery | None = None) -> None:
        super().__init__(plan, schema)
        self._discover = discover
        self._discovered: Mapping[str, object] = {}
        if self.options.view == "schemas":
            message = "Option `view` schemas is a summary, which has no next row. Read it by spark.read."
            raise ConfigurationError(message)
        self._follower = Follower(plan.log, self.options.publish_timeout, by_version=self.options.selection.by_version)
        self._initial: int | None = None
        self._target: int | None = None
        self._warned = False
        self._backlog: Backlog | None = None
        self._metrics = ReadMetrics(plan.container.name, self.options.stream)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_follower": None, "_guard": None, "_metrics": None, "_discover": None}

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a new query starts: the offset whose `start` is its own version.

        Spark calls this again when it repeats the first batch, and does not keep the first result. The offset at the
        end of the batch does: each offset passes its `start` on to the next one.
        """
        if self._initial is None:
            options = self.options
            self._find_new()
            if options.avro_schema is None and self._follower.log.head() is None:
                place = f"{self._follower.log.container.url}/{options.stream}"
                wait = "Start the writer first, or give option `avroSchema` to wait for it."
                has_blobs = self.plan.inferred is not None
                step = f"Set option `adoptFolder`: its blobs are of another program. Or: {wait}" if has_blobs else wait
                raise NotFoundError("follow", place, "there is no commit log", step)
            self._initial = self._follower.version_before(options.starting_time or options.starting_version)
            if self._follower.no_container:
                logger.warning("container %s does not exist: the query waits for it", self._follower.log.container.url)
        return self._offset(self._initial, self._initial)

    def _check_offset(self, offset: Any) -> None:
        """`ConfigurationError` for the offset of another kind of source, from whose query the checkpoint was taken."""
        if not isinstance(offset, dict) or not offset.keys() >= _OFFSET_FIELDS:
            cause = f"the checkpoint has the offset {offset!r}, which is of another kind of source"
            step = "Set option `checkpointLocation` to a directory that is the query's own."
            raise ConfigurationError("follow", str(self.options.address), cause, step)
        if unknown := offset.keys() - _OFFSET_FIELDS:
            raise needs_newer_release(f"The offset {offset!r} of {self.options.address} has the field {min(unknown)!r}")

    def _offset(self, version: int, start: int | None) -> Offset:
        """The offset of a version of the log that is followed."""
        return {"version": version, "start": start, "log": None if version < 0 else self._follower.log_id}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Distinguishes a normal trigger from one that reads all that is available. The limits are in the options."""
        return ReadMaxFiles(self.options.max_blobs)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the version that is published now, in batches, and end."""
        self._find_new()
        self._target = self._follower.latest(None, TriggerLimits())

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """Where the next micro-batch ends. Without `start`, as pyspark before 4.2 calls it, there are no limits."""
        if self._target is None:
            self._find_new()
        end = self._unlimited() if start is None else self._limited(start, limit)
        self._show_backlog(end["version"])
        return end

    def _find_new(self) -> None:
        """Add what other programs have written to the log, if the query adopts the folder."""
        if self._discover is not None:
            self._discovered = self._discover()

    def _limited(self, start: Offset, limit: ReadLimit | None) -> Offset:
        self._check_offset(start)
        limits = TriggerLimits(self.options.max_blobs, self.options.max_bytes)
        if isinstance(limit, ReadAllAvailable):
            limits = TriggerLimits()
        self._follower.expect(start["log"])
        until = self._follower.latest(start["version"], limits, at_most=self._target)
        if self._guard is not None:
            until = self._guard.end(start["version"], until)
        return start if until == start["version"] else self._offset(until, start["start"])

    def _warn_of_limits(self) -> None:
        if self.options.has_limits and not self._warned:
            logger.warning(
                "options `maxBlobsPerTrigger` and `maxBytesPerTrigger` have no effect on %s: this Spark has no limits "
                "for Python sources, and every batch holds all that is there. Upgrade to Spark 4.2 or later",
                self.options.address,
            )
        self._warned = True

    def _unlimited(self) -> Offset:
        """Spark before 4.2 asks for this before the initial offset, so a start that depends on time is fixed here."""
        self._warn_of_limits()
        if self.options.starting_version != LATEST and self.options.starting_time is None:
            return self._offset(self._follower.latest(None, TriggerLimits()), None)
        initial = self.initialOffset()
        latest = max(initial["version"], self._follower.latest(None, TriggerLimits()))
        return self._offset(latest, initial["start"])

    def _show_backlog(self, read: int) -> None:
        """Report what is left when all versions up to `read` are read."""
        self._backlog = self._follower.backlog(read)
        self._metrics.show({} if self._backlog is None else asdict(self._backlog))

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """The newest version and the backlog, for the query's progress. Spark before 4.2 does not ask for it."""
        head, backlog = self._follower.head(), self._backlog
        if head is None or backlog is None:
            return None
        found = {"discovery": self._discovered} if self._discovered else {}
        return {"version": head.version, "backlog": asdict(backlog), **found}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The partitions of one micro-batch: the same blobs each time the range is planned, but for reverted ones."""
        for offset in (start, end):
            self._check_offset(offset)
            self._follower.expect(offset["log"])
        after, last = start["version"], end["version"]
        if start["start"] == after and end["start"] is not None:
            after = min(after, end["start"])
        first = after + 1
        if first > last + 1:
            there = f"the checkpoint is at version {after}, the stream's newest is {last}"
            step = "If the stream was deleted and written again, start the query with a new checkpoint."
            raise ConflictError("read on", self.options.stream, there, step)
        if first > last:
            return [SplitsPartition((), self.plan.reader_schema)]
        planned = self._splits(after, last) if self.options.view == "data" else [self._entries(after, last)]
        self._show_backlog(last)  # also of a batch that is repeated after a restart, which has no call of latestOffset
        return planned

    def _entries(self, after: int, last: int) -> InputPartition:
        """The entries of a micro-batch, for another view than its rows."""
        self._follower.entries(last - 1, last)  # of the log that the offsets are of
        is_history = self.options.view == "commits"
        taken_back = frozenset[int]() if is_history else self._follower.taken_back(after, last)
        return EntriesPartition(after + 1, last, taken_back, self._follower.log_id)

    def _splits(self, after: int, last: int) -> Sequence[InputPartition]:
        """The rows of a micro-batch. `ConflictError` if they do not fit the query."""
        if self._guard is not None:
            self._guard.check(after, last)
        blobs = [blob for blob, _ in self._follower.blobs(after, last)]
        kept = list(filter(self.options.selection.keeps, blobs))
        return self.partitions_of(kept, f"versions {after + 1} to {last}", len(blobs))

    @cached_property
    def _guard(self) -> SchemaGuard | None:
        """Ends a batch before rows that do not fit the query. None if a view or `avroSchema` fixes the schema."""
        if self.options.view != "data" or self.options.avro_schema is not None:
            return None
        names = tuple(name for name in self.schema.names if name not in self.metadata)
        is_inferred = self.plan.inferred is not None
        columns = None if is_inferred and self.options.columns is None else names
        strict = is_inferred and self.options.schema_evolution == FAIL
        return SchemaGuard(
            self._follower, QuerySchema(self.plan.reader_schema, columns, strict, self.options.recursion)
        )

    def commit(self, end: Offset) -> None:
        """The micro-batch up to this offset is done: drop its entries."""
        self._follower.forget(end["version"])

    def stop(self) -> None:
        """The query has ended, and with it its backlog."""
        self._metrics.close()

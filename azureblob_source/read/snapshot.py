"""What a read of a stream covers: its blobs as of one version and the schema to read them with.

With a commit log the log says which blobs there are, and a batch is seen whole or not at all. Without one (a folder
of Avro that Samza, Event Hubs Capture or anyone else wrote) the listing and the blobs' headers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.errors import ConfigurationError, CorruptError, NotFoundError, TransientError, describe
from azureblob_source.avro.decoding.superset import superset
from azureblob_source.avro.files.container_file import read_header
from azureblob_source.avro.schema import arrow_schema, header_schema
from azureblob_source.concurrent_map import concurrent_map
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import schema_name
from azureblob_source.log.published import first_unpublished
from azureblob_source.metrics import skip_damaged
from azureblob_source.read.blobs import ALL_TIMES, StreamBlob, listed_blobs, stream_blob
from azureblob_source.read.read_ahead import BlobBytes, Gets, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from azure_account.account import BlobContainer
    from azureblob_source.avro.schema import AvroSchema
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.read.blobs import Between

__all__ = ["Snapshot", "StreamBlob", "kept_history", "take_snapshot", "writer_schema"]

_AT_ONCE = 16
_PUBLISH_POLL = 0.5


@dataclass(frozen=True)
class Snapshot:
    """The blobs of a stream as of `version` (None without a log), and the writer schemas to read them by.

    `examples` names, without a log, a blob of each schema.
    """

    version: int | None
    blobs: tuple[StreamBlob, ...]
    schemas: tuple[AvroSchema, ...]
    examples: tuple[str, ...] = ()

    @property
    def reader_schema(self) -> AvroSchema:
        """The schema that every blob's rows resolve to. `ConfigurationError` names a blob that has no columns."""
        for schema, name in zip(self.schemas, self.examples, strict=False):
            try:
                arrow_schema(schema)
            except ConfigurationError as cause:  # noqa: PERF203 - each schema by itself
                raise ConfigurationError(f"read blob {name} failed: {cause}") from cause
        return superset(self.schemas)


def take_snapshot(  # noqa: PLR0913 - the settings of a read, by name
    container: BlobContainer,
    stream: str,
    version: int | None,
    wait: Callable[[float], None],
    *,
    between: Between = ALL_TIMES,
    publish_timeout: float = 60.0,
    ignore_corrupt: bool = False,
) -> Snapshot:
    """The stream as of `version`, by default its head, without blobs that cannot hold a row of the time range.

    With a log the schemas are those of all live blobs, whatever the range; without one those of the blobs in it.
    `wait` (s) is called, for `publish_timeout` in all, while a batch is being published. `ignore_corrupt` leaves out
    blobs without a whole header, if there is no log; it warns of each and counts it.

    `NotFoundError` if there is neither a log nor a blob, or no such version; `TransientError` when the time is over.
    """
    log = CommitLog(container, stream)
    if log.head() is None and version is None:
        return _from_listing(container, stream, between, ignore_corrupt=ignore_corrupt)
    state = _Settled(log, version, wait, publish_timeout).state()
    last = state.history[-1]
    fingerprints = dict.fromkeys(blob.schema for _, blob in state.live)
    used = fingerprints or last.schemas or dict.fromkeys(blob.schema for entry in state.history for blob in entry.blobs)
    blobs = (stream_blob(entry, blob) for entry, blob in state.live)
    return Snapshot(
        last.version,
        tuple(blob for blob in blobs if blob.may_hold(between)),
        tuple(concurrent_map(lambda fingerprint: writer_schema(log, fingerprint), list(used), _AT_ONCE)),
    )


def kept_history(log: CommitLog, version: int | None, *, live_only: bool = False) -> list[LogEntry]:
    """The log's entries up to `version`, by default its head. `live_only` leaves out those before the last overwrite.

    `NotFoundError` if there are none, or no such version.
    """
    head = log.head()
    place = f"{log.container.url}/{log.stream}"
    if head is not None and version is not None and version > head.version:
        step = "Ask for one that exists: the view `commits` lists them."
        raise NotFoundError(describe(f"read version {version} of", place, f"the newest is {head.version}", step))
    history: list[LogEntry] = []
    if head is not None:
        last = head.version if version is None else version
        history = log.live_entries(last) if live_only else log.history(last)
    if not history:
        step = "Check container and stream; one that this project has not written has no versions."
        raise NotFoundError(describe("read the commit log of", place, "there is none", step))
    return history


def writer_schema(log: CommitLog, fingerprint: str) -> AvroSchema:
    """A schema that the stream's writers have used. Entries of the log name it by its fingerprint."""
    name = schema_name(log.stream, fingerprint)
    return header_schema(log.container.get(name).data.decode(), blob=name)


@dataclass(frozen=True)
class _State:
    """Entries of a log, and the blobs that they leave, each with the entry that added it."""

    history: list[LogEntry]
    live: list[tuple[LogEntry, BlobEntry]]


@dataclass
class _Settled:
    """Looks at a log until every batch up to `version` is published, or has been taken back.

    An entry whose blocks have expired is taken back by the next one (`void` or `replace`), as nothing else is appended
    before all earlier entries are settled. A read of the head then goes on to that entry.
    """

    log: CommitLog
    version: int | None
    wait: Callable[[float], None]
    timeout: float

    def state(self) -> _State:
        """The settled state. `TransientError` when the time is over."""
        history = kept_history(self.log, self.version, live_only=True)
        taken_back_by: list[LogEntry] = []
        public: set[str] = set()
        waited = 0.0
        while True:
            behind = self._behind(history[-1])
            if behind is not None and self.version is None:
                history.append(behind)
                continue
            if behind is not None:
                taken_back_by = [behind]
            live = self._live(history, taken_back_by)
            missing = self._missing(live, public)
            if not missing:
                return _State(history, live)
            if waited >= self.timeout:
                raise TransientError(self._late(missing[0], waited))
            self.wait(_PUBLISH_POLL)
            waited += _PUBLISH_POLL
            self.log.refresh()

    def _behind(self, last: LogEntry) -> LogEntry | None:
        """The entry that takes back the last one, or what is left of it, if that is the next."""
        head = self.log.head()
        if head is None or head.version <= last.version:
            return None
        following = self.log.read(last.version + 1)
        return following if following.replaces is not None else None

    def _live(self, history: list[LogEntry], taken_back_by: list[LogEntry]) -> list[tuple[LogEntry, BlobEntry]]:
        names = live_blobs(history + taken_back_by)
        return [(entry, blob) for entry in history for blob in entry.blobs if blob.name in names]

    def _missing(self, live: Sequence[tuple[LogEntry, BlobEntry]], public: set[str]) -> list[str]:
        """Names of live blobs that are not there; `public` gathers those that are."""
        first = first_unpublished(self.log.head())
        names = [blob.name for entry, blob in live if entry.version >= first and blob.name not in public]
        there = concurrent_map(self.log.container.properties, names, _AT_ONCE)
        public.update(name for name, found in zip(names, there, strict=True) if found is not None and found.size)
        return [name for name in names if name not in public]

    def _late(self, name: str, waited: float) -> str:
        return describe(
            "read",
            f"blob {name} in {self.log.container.url}",
            "its batch is decided but its writer has not published it",
            "Start the writer again, which finishes the batch, or run `python -m azureblob_source repair`, or read an "
            "earlier `versionAsOf`.",
            elapsed=waited,
        )


def _from_listing(container: BlobContainer, stream: str, between: Between, *, ignore_corrupt: bool) -> Snapshot:
    found = listed_blobs(stream, list(container.list(f"{stream}/")))
    if not found:
        message = describe(
            "read",
            f"{container.url}/{stream}",
            "there is no commit log, and no blob with bytes in it whose name ends in .avro or .avro.gz",
            "Check container and stream; `az storage blob list --prefix` shows what is there. If only DataFrames "
            "without rows were written so far, write one with rows: a first write of none leaves nothing to read.",
        )
        raise NotFoundError(message)
    blobs = [blob for blob in found if blob.may_hold(between)]
    headers = _Headers(container, ignore_corrupt=ignore_corrupt)
    read = concurrent_map(headers.schema, blobs, _AT_ONCE)
    kept = [(blob, schema) for blob, schema in zip(blobs, read, strict=True) if schema is not None]
    used: dict[AvroSchema, str] = {}
    for blob, schema in kept:
        used.setdefault(schema, blob.name)
    schemas = tuple(used) or (headers.newest(found, stream),)
    return Snapshot(None, tuple(blob for blob, _ in kept), schemas, tuple(used.values()))


@dataclass
class _Headers:
    """Reads the writer schemas in blobs' headers, a few thousand bytes of each."""

    container: BlobContainer
    ignore_corrupt: bool

    def __post_init__(self) -> None:
        self._gets = Gets(self.container)

    def schema(self, blob: StreamBlob) -> AvroSchema | None:
        """The blob's schema; None for a damaged blob that is skipped."""
        try:
            return self._read(blob)
        except CorruptError as damage:
            if not self.ignore_corrupt:
                raise
            skip_damaged(self.container, damage)
            return None

    def newest(self, blobs: Iterable[StreamBlob], stream: str) -> AvroSchema:
        """The schema of the newest blob whose header is whole, for a read of none of them."""
        for blob in sorted(blobs, key=lambda each: (each.latest or 0, each.name), reverse=True):
            found = self.schema(blob)
            if found is not None:
                return found
        step = "Restore a blob; without option ignoreCorruptBlobs the first damaged one is named."
        raise NotFoundError(describe("read", f"{self.container.url}/{stream}", "no blob has a whole header", step))

    def _read(self, blob: StreamBlob) -> AvroSchema:
        header = read_header(plain(BlobBytes(self._gets, blob)), blob=blob.name)
        return header_schema(header.schema_json, blob=blob.name)

"""What a read of a stream covers: its blobs as of one version and the schema to read them with.

With a commit log the log says which blobs there are, and a batch is seen whole or not at all. Without one (a folder
of Avro that Samza, Event Hubs Capture or anyone else wrote) the listing does.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.errors import CorruptError, NotFoundError, TransientError, describe
from azureblob_source.avro import schema as avro_schema
from azureblob_source.avro.container_file import is_gzip, read_header, ungzip
from azureblob_source.avro.superset import superset
from azureblob_source.commit_log import CommitLog
from azureblob_source.naming import schema_name
from azureblob_source.snapshot import live_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from azure_account.account import BlobContainer
    from azureblob_source.avro.schema import AvroSchema
    from azureblob_source.log_entry import LogEntry

logger = logging.getLogger(__name__)

_HEADER_BYTES = 1 << 16
_PUBLISH_WAIT = 60.0
_PUBLISH_POLL = 0.5


@dataclass(frozen=True)
class StreamBlob:
    """A blob to read; `size` is in stored bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class Snapshot:
    """The blobs of a stream as of `version` (None without a log), and every writer schema among them."""

    version: int | None
    blobs: tuple[StreamBlob, ...]
    schemas: tuple[AvroSchema, ...]

    @property
    def reader_schema(self) -> AvroSchema:
        """The schema that every blob's rows resolve to."""
        return superset(self.schemas)


def take_snapshot(
    container: BlobContainer, stream: str, version: int | None, wait: Callable[[float], None]
) -> Snapshot:
    """The stream as of `version`, by default its head. `wait` (s) is called while a batch is being published.

    `NotFoundError` if there is neither a log nor a blob, or no such version.
    """
    log = CommitLog(container, stream)
    head = log.head()
    if head is None and version is None:
        return _from_listing(container, stream)
    history = kept_history(log, version)
    return _from_log(container, stream, history, -1 if head is None else head.published, wait)


def kept_history(log: CommitLog, version: int | None) -> list[LogEntry]:
    """The log's entries up to `version`, by default its head. `NotFoundError` if there are none, or no such version."""
    head = log.head()
    place = f"{log.container.url}/{log.stream}"
    if head is None:
        step = "Check container and stream; one that this project has not written has no versions."
        raise NotFoundError(describe("read the commit log of", place, "there is none", step))
    if version is not None and version > head.version:
        step = "Ask for one that exists: the view `commits` lists them."
        raise NotFoundError(describe(f"read version {version} of", place, f"the newest is {head.version}", step))
    return log.history(version)


def _from_log(
    container: BlobContainer, stream: str, history: Sequence[LogEntry], published: int, wait: Callable[[float], None]
) -> Snapshot:
    live = live_blobs(history)
    unproven = [blob.name for entry in history if entry.version > published for blob in entry.blobs]
    _await_published(container, [name for name in unproven if name in live], wait)
    fingerprints = dict.fromkeys(blob.schema for blob in live.values())
    schemas = fingerprints or dict.fromkeys(blob.schema for entry in history for blob in entry.blobs)
    return Snapshot(
        history[-1].version,
        tuple(StreamBlob(blob.name, blob.size) for blob in live.values()),
        tuple(_kept_schema(container, stream, fingerprint) for fingerprint in schemas),
    )


def _await_published(container: BlobContainer, names: Iterable[str], wait: Callable[[float], None]) -> None:
    """Wait for the blobs of an entry that its writer has decided and may still be publishing."""
    waited = 0.0
    for name in names:
        while container.properties(name) is None:
            if waited >= _PUBLISH_WAIT:
                message = describe(
                    "read",
                    f"blob {name} in {container.url}",
                    "its batch is decided but its writer has not published it",
                    "Start the writer again, which finishes the batch, or read an earlier `versionAsOf`.",
                    elapsed=waited,
                )
                raise TransientError(message)
            wait(_PUBLISH_POLL)
            waited += _PUBLISH_POLL


def _kept_schema(container: BlobContainer, stream: str, fingerprint: str) -> AvroSchema:
    return avro_schema.parse(container.get(schema_name(stream, fingerprint)).data.decode())


def _from_listing(container: BlobContainer, stream: str) -> Snapshot:
    prefix = f"{stream}/"
    found = [
        StreamBlob(blob.name, blob.size)
        for blob in container.list(prefix)
        if blob.size and blob.name.endswith((".avro", ".avro.gz")) and not _hidden(blob.name[len(prefix) :])
    ]
    if not found:
        message = describe(
            "read",
            f"{container.url}/{stream}",
            "there is no commit log and no blob ending in .avro or .avro.gz",
            "Check container and stream; `az storage blob list --prefix` shows what is there.",
        )
        raise NotFoundError(message)
    texts = dict.fromkeys(_header_schema(container, blob) for blob in found)
    return Snapshot(None, tuple(found), tuple(avro_schema.parse(text) for text in texts))


def _hidden(name: str) -> bool:
    return any(level.startswith(("_", ".")) for level in name.split("/"))


def _header_schema(container: BlobContainer, blob: StreamBlob) -> str:
    """The writer schema in the blob's header, from its first bytes unless these do not suffice."""
    if blob.size > _HEADER_BYTES and not blob.name.endswith(".gz"):
        start = container.get(blob.name, 0, _HEADER_BYTES).data
        try:
            return read_header(start, blob=blob.name).schema_json
        except CorruptError:
            logger.debug("the header of %s is longer than %d bytes, or damaged", blob.name, _HEADER_BYTES)
    data = container.get(blob.name).data
    return read_header(ungzip(data, blob=blob.name) if is_gzip(data) else data, blob=blob.name).schema_json

"""The streams of a container, from their commit logs, and folders of Avro blobs that have no log."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.folder import is_avro, is_listed, strangers
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import is_batch_log, log_stream
from azureblob_source.log.times import name_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties


@dataclass(frozen=True)
class StreamSummary:
    """One stream. `bytes` are stored bytes; `rows` and versions are None for a folder without a log.

    first, version: the oldest version kept, and the head. changed: the time of the head, or of the newest blob.
    strangers: Avro blobs in the folder of a stream that its log does not name, and readers ignore: others wrote them.
    """

    name: str
    blobs: int
    rows: int | None
    bytes: int
    first: int | None
    version: int | None
    changed: datetime
    strangers: tuple[str, ...] = ()


def inventory(
    container: BlobContainer, prefix: str, progress: Callable[[str], object] = lambda _: None
) -> list[StreamSummary]:
    """The streams and folders whose names begin with `prefix`, in name order.

    Makes one listing, and reads the entries of each stream's log since its last overwrite. `progress` is called with
    the name of each stream before its log is read.
    """
    listed = list(container.list(prefix))
    streams = {stream for blob in listed if (stream := log_stream(blob.name)) is not None}
    foreign = strangers(listed, streams)
    summaries = [_folder(name, blobs) for name, blobs in _folders(listed, streams).items()]
    for stream in streams:
        if not is_batch_log(stream):
            progress(stream)
            summary = _summary(CommitLog(container, stream), foreign.get(stream, ()))
            summaries += [] if summary is None else [summary]
    return sorted(summaries, key=lambda summary: summary.name)


def _summary(log: CommitLog, foreign: Iterable[str]) -> StreamSummary | None:
    head, first = log.refresh(), log.first()
    if head is None or first is None:
        return None
    live = blobs_live_at(log, head.version)
    return StreamSummary(
        name=log.stream,
        blobs=len(live),
        rows=sum(blob.rows for blob in live),
        bytes=sum(blob.size for blob in live),
        first=first,
        version=head.version,
        changed=datetime.fromisoformat(head.timestamp),
        strangers=() if head.adopts else tuple(foreign),
    )


def _folders(listed: Iterable[BlobProperties], streams: set[str]) -> dict[str, list[BlobProperties]]:
    """Avro blobs that belong to no stream, by the part of their names before the time."""
    folders: dict[str, list[BlobProperties]] = defaultdict(list)
    for blob in listed:
        levels = blob.name.split("/")
        above = ("/".join(levels[:depth]) for depth in range(1, len(levels)))
        if is_avro(blob.name) and is_listed(blob, levels) and streams.isdisjoint(above):
            place, _ = name_time(blob.name)
            folders[(blob.name[:place] if place is not None else "/".join(levels[:-1])).rstrip("/")].append(blob)
    return folders


def _folder(name: str, blobs: list[BlobProperties]) -> StreamSummary:
    changed = max(blob.last_modified for blob in blobs)
    return StreamSummary(name, len(blobs), None, sum(blob.size for blob in blobs), None, None, changed)

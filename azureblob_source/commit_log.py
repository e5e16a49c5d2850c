"""A stream's commit log in its container: find the head, read entries, append one.

Versions are dense from the oldest kept entry to the head, so the head is found by doubling steps and halving, in
about 2·log2(n) requests, and a process that has appended once knows it without any.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from azure_account.account import IF_ABSENT, Conflict, Done, Missing, Unknown
from azure_account.errors import NotFoundError, TransientError, describe
from azureblob_source.log_entry import LogEntry, from_json, to_json
from azureblob_source.naming import log_name, log_prefix, log_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.account import BlobContainer

_PUT_ATTEMPTS = 5


class CommitLog:
    """The log of one stream, as one process sees it. Not thread-safe: one thread commits to a stream at a time.

    `readers` is how many entries are read side by side.
    """

    def __init__(self, container: BlobContainer, stream: str, *, readers: int = 16) -> None:
        self.container = container
        self.stream = stream
        self.readers = readers
        self.published = -1
        """Every entry up to this version is known to be published."""
        self.schemas: set[str] = set()
        """Fingerprints of the writer schemas known to be kept beside the log."""
        self._head: LogEntry | None = None
        self._looked = False

    def head(self) -> LogEntry | None:
        """The newest entry that this object knows of. It looks for one only the first time; see `refresh`."""
        return self._head if self._looked else self.refresh()

    def refresh(self) -> LogEntry | None:
        """Follow the log to its newest entry as of now."""
        known = self._head.version if self._head else self._oldest()
        if known is not None:
            newest = self._newest(known)
            if self._head is None or newest > self._head.version:
                self._head = self.read(newest)
        self._looked = True
        return self._head

    def read(self, version: int) -> LogEntry:
        """One entry. `NotFoundError` if that version is not, or no longer, in the log."""
        name = log_name(self.stream, version)
        try:
            return from_json(self.container.get(name).data, name)
        except NotFoundError as error:
            oldest = self._oldest()
            known = "the log is empty" if oldest is None else f"the oldest entry kept is {oldest}"
            message = describe("read version", f"{version} of {self.stream}", known, "Ask for a version that is kept.")
            raise NotFoundError(message) from error

    def entries(self, first: int, last: int) -> Iterator[LogEntry]:
        """The entries `first … last`, in order; read side by side when there are several."""
        versions = range(first, last + 1)
        if min(len(versions), self.readers) < 2:  # noqa: PLR2004 - nothing to do side by side
            yield from map(self.read, versions)
            return
        with ThreadPoolExecutor(self.readers) as pool:
            yield from pool.map(self.read, versions)

    def history(self, last: int | None = None) -> list[LogEntry]:
        """Every entry kept, up to version `last`, by default the head as of now. `NotFoundError` if it is not kept."""
        head = self.refresh()
        oldest = self._oldest()
        if head is None or oldest is None:
            return []
        newest = head.version if last is None else last
        return list(self.entries(min(oldest, newest), newest))

    def put(self, entry: LogEntry) -> LogEntry:
        """Put `entry` as its version unless that exists; returns the entry that stands there afterwards.

        A lost answer is resolved by reading the version back: the same write id means that the put had been done.
        Repeating the put is safe, as it can only ever create this very entry.
        """
        name = log_name(self.stream, entry.version)
        data = to_json(entry)
        outcome = None
        for _ in range(_PUT_ATTEMPTS):
            outcome = self.container.put(name, data, condition=IF_ABSENT)
            match outcome:
                case Done():
                    return self._advance(entry)
                case Conflict():
                    return self._advance(self.read(entry.version))
                case Unknown() | Missing():
                    if self.container.properties(name) is not None:
                        return self._advance(self.read(entry.version))
        message = describe(
            "commit",
            f"log entry {name} in {self.container.url}",
            f"no answer could be had ({outcome})",
            "Run the batch again: it is found if it was decided after all.",
            attempts=_PUT_ATTEMPTS,
        )
        raise TransientError(message)

    def _advance(self, entry: LogEntry) -> LogEntry:
        if self._head is None or entry.version > self._head.version:
            self._head, self._looked = entry, True
        return entry

    def _oldest(self) -> int | None:
        if self._exists(0):
            return 0
        for blob in self.container.list(log_prefix(self.stream)):
            version = log_version(blob.name)
            if version is not None:
                return version
        return None

    def _newest(self, known: int) -> int:
        """The newest version, given one that exists."""
        step = 1
        while self._exists(known + step):
            known, step = known + step, step * 2
        missing = known + step
        while missing - known > 1:
            middle = (known + missing) // 2
            if self._exists(middle):
                known = middle
            else:
                missing = middle
        return known

    def _exists(self, version: int) -> bool:
        return self.container.properties(log_name(self.stream, version)) is not None

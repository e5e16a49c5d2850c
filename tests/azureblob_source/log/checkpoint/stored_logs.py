"""Long logs, put as entries, and what a read of them asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.log import live_state
from azureblob_source.log.checkpointing import make_checkpoint
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, LogEntry, to_json
from azureblob_source.log.live_state import added_at
from azureblob_source.log.naming import log_name

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint

STREAM = "flights"


class Requests(Intercept):
    """The requests of a process. before: called with each."""

    def __init__(self, before: Callable[[Request], object] = lambda _: None) -> None:
        self.made: list[tuple[str, str]] = []
        self.before = before

    def attempt(self, request: Request, send: Any) -> Any:
        """Note it, and send it."""
        self.made.append((request.operation, request.name))
        self.before(request)
        return send()

    def of_checkpoints(self) -> list[tuple[str, str]]:
        """Operations on parts of checkpoints, and what these are."""
        return [(of, _part(name)) for of, name in self.made if _part(name)]


def _part(name: str) -> str:
    if name.endswith("/_log/_checkpoint.json"):
        return "hint"
    return "" if "/_iceberg/" not in name else "manifest" if "/m-" in name else "list"


def entry(version: int, write_id: str = "") -> LogEntry:
    """The entry of a version, which adds a blob."""
    attempt = f"{version:016x}"
    blob = BlobEntry(f"{STREAM}/{attempt}.avro", STREAM, None, attempt, 1, 1, 1, 1, "none", "end")
    return LogEntry(
        write_id or f"w{version}", "2026-01-01T00:00:00.000+00:00", version=version, published_up_to=version - 1,
        blobs=(blob,), log_id="w0",
    )  # fmt: skip


def put_entries(container: BlobContainer, versions: range) -> None:
    """Put the entries of these versions."""
    for version in versions:
        container.put(log_name(STREAM, version), to_json(entry(version)))


def checkpoint(container: BlobContainer, version: int, most: int | None = None) -> LogCheckpoint | None:
    """A process makes a checkpoint."""
    log = CommitLog(container, STREAM)
    return make_checkpoint(log, log.read(version), most=most)


def live(container: BlobContainer, version: int) -> list[int]:
    """The versions whose blobs are live, as a new process finds them."""
    return [added for added, _, _ in added_at(CommitLog(container, STREAM), version)]


def live_by_entries(container: BlobContainer, version: int) -> list[int]:
    """The same without checkpoints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_state, "FEW_ENTRIES", 10**9)
        return live(container, version)

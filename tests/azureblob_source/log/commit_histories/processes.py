"""Processes of a history of the commit protocol."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from azureblob_source.log import entry
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import BATCHES, log_version
from tests.histories.pools import inline_pools
from tests.histories.process import HistoryProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.retrying.retry_loop import Request
    from foundation.clock import ManualClock
    from tests.azureblob_source.log.commit_histories.world import CommitWorld


class CommitProcess(HistoryProcess):
    """A driver, a reader, or maintenance. query: whose driver it is."""

    world: CommitWorld
    query = ""

    def __init__(self, world: CommitWorld, *given: Any) -> None:
        self.born, self.voids_seen = world.expiries, world.truth.voids
        super().__init__(world, *given)

    def aim_of(self, request: Request) -> str:
        """As the function."""
        return aim_of(request)


def aim_of(request: Request) -> str:
    """What a request is for, as far as its name says."""
    match request.operation:
        case "put" if request.name.endswith("_first.json"):
            return "boundary"
        case "put" if log_version(request.name) is not None:
            return "commit"
        case "put" if "/_iceberg/" in request.name or request.name.endswith("_checkpoint.json"):
            return "checkpoint"
        case "commit_block_list":
            return "publish"
        case "delete" if request.name.endswith(".avro"):
            return "remove"
        case "stage_block":
            return "stage"
        case "list" if request.name.startswith(BATCHES):
            return "batches"
        case "get" | "properties" if request.name.endswith("_first.json"):
            return "look"
        case _:
            return "other"


@contextmanager
def one_clock(seed: int, clock: ManualClock, list_every: int = 3) -> Iterator[None]:
    """No threads while this lasts, this clock for every log, and lists of transactions every so many versions."""
    defaults: dict[str, Any] = CommitLog.__init__.__kwdefaults__ or {}
    before, defaults["clock"] = defaults["clock"], clock
    usual, entry.LIST_EVERY = entry.LIST_EVERY, list_every
    try:
        with inline_pools(seed):
            yield
    finally:
        defaults["clock"], entry.LIST_EVERY = before, usual

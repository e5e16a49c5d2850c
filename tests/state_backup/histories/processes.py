"""Processes of a history of a state's backup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure_account.retrying.policy import RetryPolicy
from tests.histories.process import HistoryProcess

if TYPE_CHECKING:
    from azure_account.retrying.retry_loop import Request

POLICY = RetryPolicy(max_attempts=3, first_delay=0.1, max_delay=1, deadline=1e9)


class StateProcess(HistoryProcess):
    """A writer, a sweep or a restore."""

    policy = POLICY

    def __init__(self, *given: Any) -> None:
        self.writer = ""
        """The id under which it has opened the state."""
        self.ttl = True
        """Whether its blobs have a TTL."""
        self.record_reads = 0
        self.write_failed = False
        """Whether its last write of the record got no answer."""
        self.deleted: set[str] = set()
        """The blobs that it knows to be gone: it was told so when it deleted them."""
        super().__init__(*given)

    def aim_of(self, request: Request) -> str:
        """What a request is for."""
        match request.operation:
            case "put" | "get" if request.name.endswith("/checkpoint.json"):
                return "write record" if request.operation == "put" else "read record"
            case "put" | "commit_block_list":
                return "upload"
            case "list_tags":
                return "list"
            case "delete" | "set_tags" | "get" | "list":
                return str(request.operation)
            case _:
                return "other"

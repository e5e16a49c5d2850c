"""Conditional requests whose answer may be lost. Pure.

    request ─► Done ──────────────────────────────────────────────► its answer
       ▲ └───► Conflict, Missing, Unknown ─► read back ─► found ──► what was found
       └──────────────────────────────────────┘ nothing is confirmed

`Unknown` is not the only doubtful answer: a `Conflict` or `Missing` may be due to the caller's own request, of which an
earlier answer was lost. Only storage shows whose write has won: a write id, an attempt id, an ETag, the content.
Repeating the request is safe because of its condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from azure_account.values import Conflict, Done, Missing, Unknown
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from foundation.errors import AzureBlobError

ATTEMPTS = 5

Doubtful: TypeAlias = Conflict | Missing | Unknown | ConfigurationError
"""An answer that does not confirm what became of the request. A refusal is one if the request returns the error."""
Found = TypeVar("Found")


def request_and_read_back(
    request: Callable[[], Done | Doubtful],
    read_back: Callable[[Doubtful], Found | None],
    unresolved: Callable[[Doubtful], AzureBlobError],
) -> Done | Found:
    """Make a conditional request until its outcome is known: `Done`, or what `read_back` has found.

    `read_back` is called with every other answer. It returns what confirms the outcome (the request was executed, or
    can never be), or raises that; None if nothing is confirmed, and the request is made again. After `ATTEMPTS` of them
    the error `unresolved` is raised.
    """
    for _ in range(ATTEMPTS):
        answer = request()
        if isinstance(answer, Done):
            return answer
        found = read_back(answer)
        if found is not None:
            return found
        doubt = answer
    raise unresolved(doubt)

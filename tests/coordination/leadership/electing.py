"""Electors in threads, listeners that record their calls, and requests that hang."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from azure_account.location import Location
from azure_account.retrying.retry_loop import Intercept, Request
from coordination.leadership.leader import LeaderElector
from coordination.timing import LeaseTiming
from tools import reporting

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.account import MemoryAccount

T = TypeVar("T")
BLOB = "jobs/flights"
QUICK = LeaseTiming(duration=15, renew_every=0.05, poll_every=0.05, request=0.1, margin=14.5)
"""The holder's deadline is half a second after a renewal: for tests that wait until it has passed."""
LASTING = LeaseTiming(duration=15, renew_every=0.05, poll_every=0.05, request=0.1, margin=1)
"""The holder's deadline is 14 seconds after a renewal, so that it does not pass on a busy machine."""


class Recorder:
    """A listener that records its calls: epochs, reasons and errors. Then it calls what the test sets."""

    def __init__(self) -> None:
        self.calls: list[int | str | Exception] = []
        self.elected: Callable[[], object] = lambda: None
        self.deposed: Callable[[], object] = lambda: None
        self.failed: Callable[[], object] = lambda: None

    def on_elected(self, epoch: int) -> None:
        self.calls.append(epoch)
        self.elected()

    def on_deposed(self, reason: str) -> None:
        self.calls.append(reason)
        self.deposed()

    def on_failure(self, error: Exception) -> None:
        self.calls.append(error)
        self.failed()

    @property
    def kinds(self) -> list[str]:
        """The calls, by what was passed."""
        names = {int: "elected", str: "deposed"}
        return [names.get(type(call), "failed") for call in self.calls]


class Gate(Intercept):
    """Renewals wait while it is closed, 60 s at most. hangs: one does, or did."""

    def __init__(self) -> None:
        self.open, self.hangs = threading.Event(), threading.Event()
        self.open.set()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "renew_lease" and not self.open.is_set():
            self.hangs.set()
            self.open.wait(60)
        return send()


wait_for = partial(reporting.wait_for, seconds=60, poll=0.01)


def blob_in(account: MemoryAccount, blob: str = BLOB) -> Location:
    return Location.in_account(account, f"box/{blob}")


def elector(
    electors: list[LeaderElector],
    account: MemoryAccount,
    recorder: Recorder,
    holder: str = "one",
    *,
    timing: LeaseTiming = LASTING,
) -> LeaderElector:
    new = LeaderElector(blob_in(account), holder, recorder, timing)
    electors.append(new)
    new.start()
    return new


def raises(error: BaseException) -> Callable[[], object]:
    def call() -> None:
        raise error

    return call


def ended(elector: LeaderElector) -> bool:
    """Whether both threads have ended."""
    return not any(thread.is_alive() for thread in elector._threads)


def leased(account: MemoryAccount, blob: str = BLOB) -> bool:
    found = account.container("box").properties(blob)
    return found is not None and found.leased

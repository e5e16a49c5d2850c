"""Processes that a test moves request by request: each is a greenlet that rests before its next request."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

from greenlet import greenlet

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, LateEffect, ProcessDied, fail
from azure_account.retrying.policy import RetryPolicy
from azure_account.retrying.retry_loop import Intercept, Request
from tests.histories.world import BOX, Late

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from azure_account.container import BlobContainer
    from tests.histories.world import World

T = TypeVar("T")
MAX_STEPS = 3000
"""A process that makes more requests does not end."""


class SteppedProcess(Intercept):
    """A process that rests before each request. `act` is what it does."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.next: Request | None = None
        """The request that it is about to make; None if it has ended."""
        self.error: BaseException | None = None
        self.died = False
        self._act = act
        self._greenlet = greenlet(self._run)

    @property
    def ended(self) -> bool:
        """Whether it has returned, failed or died."""
        return bool(self._greenlet.dead)

    def step(self) -> bool:
        """One request, and what follows up to the next one. False when the process has ended."""
        if not self.ended:
            self._greenlet.switch()
        return not self.ended

    def kill(self) -> None:
        """SIGKILL before its next request."""
        self.died = True
        self.step()

    def finish(self) -> None:
        """Run it to its end, and raise the error that it has ended with."""
        while self.step():
            pass
        if self.error is not None:
            raise self.error

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        """Wait for the turn, then send the request."""
        if not self.died:
            self.next = request
            self._greenlet.parent.switch()
            self.next = None
        if self.died:
            raise ProcessDied
        return self.answer(request, send)

    def answer(self, request: Request, send: Callable[[], T]) -> T:
        """Send a request. A subclass puts faults in its way."""
        return send()

    def _run(self) -> None:
        try:
            self._act()
        except ProcessDied:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the test
            if not self.died:
                self.error = error


class HistoryProcess(SteppedProcess):
    """A process of a history. `act` gets the process.

    faults: those that it will meet, each at its first request for an aim, below the retries.
    """

    policy = RetryPolicy()

    def __init__(self, world: World[Any], kind: str, act: Callable[[Any], object], seed: int | None = None) -> None:
        super().__init__(lambda: act(self))
        self.world, self.kind, self.number = world, kind, len(world.processes) + 1
        self.draws = Random((world.seed if seed is None else seed) * 1_000_003 + self.number)
        self.faults: list[tuple[str, Fault]] = []
        self.container: BlobContainer = MemoryAccount(world.service, intercept=self, policy=self.policy).container(BOX)
        self.names: set[str] = set()
        """What `new_id` has made."""

    def __repr__(self) -> str:
        return f"{self.kind}#{self.number}"

    def aim_of(self, request: Request) -> str:
        """What a request is for: where a history stops processes and places faults."""
        return str(request.operation)

    def is_at(self, *aims: str) -> bool:
        """Whether its next request is for one of the aims."""
        return self.next is not None and self.aim_of(self.next) in aims

    def new_id(self) -> str:
        """A name that no other process makes."""
        name = f"p{self.number}n{len(self.names) + 1}"
        self.names.add(name)
        return name

    def step(self) -> bool:
        """One request. False when the process has ended, or something is violated."""
        before, self.world.running = self.world.running, self
        alive = super().step()
        self.world.running = before
        return alive and self.world.truth.violation is None

    def move(self, steps: int = MAX_STEPS, aim: str = "") -> bool:
        """So many requests, or up to the next one for an aim, which is not made. False as of `step`."""
        for _ in range(steps):
            if not self.step():
                return False
            if self.is_at(aim):
                break
        return True

    def finish(self) -> None:
        """Run it to its end."""
        if self.move():
            self.world.truth.fail(f"{self} does not end")

    def answer(self, request: Request, send: Callable[[], T]) -> T:
        """Send a request, with the first fault that is aimed at it."""
        fault = self._fault(request)
        self.world.note(self, request, fault)
        if fault is None:
            return send()
        if isinstance(fault, LateEffect):
            self.world.late.append(Late(self, request, send, self.world.mark()))
        self.died = isinstance(fault, Crash)
        return fail(fault, send)

    def _fault(self, request: Request) -> Fault | None:
        for place, (aim, fault) in enumerate(self.faults):
            if aim in ("any", self.aim_of(request)):
                del self.faults[place]
                return fault
        return None

    def _run(self) -> None:
        super()._run()
        if self.error is not None and not isinstance(self.error, self.world.expected):
            self.world.truth.fail(f"{self.kind} ends with {type(self.error).__name__}: {self.error}")

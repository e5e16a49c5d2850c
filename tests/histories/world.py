"""The storage of a history with its processes, and what is noted of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import effect
from azure_account.memory.service import MemoryService, ServiceAssumptions
from foundation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from azure_account.container import BlobContainer
    from azure_account.memory.faults import Fault
    from azure_account.retrying.retry_loop import Request

P = TypeVar("P")
BOX = "container"


@dataclass(kw_only=True)
class Truth:
    """What has truly happened in a history, in plain Python, and what must hold of it.

    It watches the storage, not the protocol. violation: the first thing that was wrong. seen: the events, counted.
    """

    violation: str | None = None
    seen: Counter[str] = field(default_factory=Counter)

    def fail(self, what: str) -> None:
        """Note a violation; the first one counts."""
        self.violation = self.violation or what

    def changed(self, name: str, data: bytes | None) -> None:
        """A blob was written, or (None) deleted."""


class WatchedService(MemoryService):
    """Reports every write to the truth, from any process and whenever it takes effect."""

    def __init__(self, truth: Truth, clock: ManualClock, behaviour: ServiceAssumptions | None = None) -> None:
        super().__init__(clock=clock, behaviour=behaviour)
        self._truth = truth

    def changed(self, container: str, blob: str) -> None:
        """A blob was written or deleted."""
        found = self._containers[container].get(blob)
        self._truth.changed(blob, found.content() if found is not None and found.etag else None)


@dataclass(frozen=True)
class Late(Generic[P]):
    """A request without an answer, which may take effect at any later time. mark: what the world's `mark` was."""

    process: P
    request: Request
    send: Callable[[], object]
    mark: Any


@dataclass(kw_only=True)
class World(Generic[P]):
    """One history's storage and processes. expected: the errors by which a process may end."""

    seed: int
    truth: Any
    make: Callable[..., P]
    """The class of its processes."""
    behaviour: ServiceAssumptions = field(default_factory=ServiceAssumptions)
    expected: tuple[type[Exception], ...] = ()
    trace: Callable[[str], object] = lambda _: None
    clock: ManualClock = field(default_factory=ManualClock)
    processes: list[P] = field(default_factory=list)
    running: P | None = None
    late: list[Late[P]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.service = WatchedService(self.truth, self.clock, self.behaviour)
        self.container.create()

    @property
    def container(self) -> BlobContainer:
        """The container for those who look on: no faults, no turns."""
        return MemoryAccount(self.service).container(BOX)

    def start(self, kind: str, act: Callable[[P], object], seed: int | None = None) -> P:
        """A process starts."""
        process: Any = self.make(self, kind, act, seed)
        self.processes.append(process)
        self.trace(f"{process} starts")
        process.step()
        return process  # type: ignore[no-any-return]

    def alive(self, *kinds: str) -> list[P]:
        """The processes that have not ended, of some kinds or of all."""
        processes: list[Any] = self.processes
        return [each for each in processes if not each.ended and (not kinds or each.kind in kinds)]

    def note(self, process: P, request: Request, fault: Fault | None) -> None:
        """A process makes a request."""
        self.trace(f"{process} {request.operation} {request.name}{f'   <-- {fault}' if fault else ''}")

    def mark(self) -> Any:
        """What is kept with a request that takes effect late."""

    def land(self, number: int) -> None:
        """A late request takes effect."""
        late = self.late.pop(number % len(self.late))
        self.trace(f"late: {late.process} {late.request.operation} {late.request.name}")
        self.arrive(late)

    def arrive(self, late: Late[P]) -> None:
        """A late request takes effect."""
        effect(late.send)

    def land_or_lose(self, draws: Random) -> None:
        """All late requests take effect, in any order, or never."""
        while self.late:
            if draws.random() < 0.7:
                self.land(draws.getrandbits(8))
            else:
                self.late.pop(draws.getrandbits(8) % len(self.late))

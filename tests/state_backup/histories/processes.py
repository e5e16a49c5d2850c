"""Processes that a history moves request by request: each is a greenlet that rests before its next request."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from greenlet import greenlet

from azure_account.errors import AzureBlobError
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, ProcessDied, Reset, Throttle
from azure_account.retrying.policy import RetryPolicy
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.service import Ambiguous, Failure, Throttled

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.service import MemoryService

T = TypeVar("T")
BOX = "box"
POLICY = RetryPolicy(max_attempts=3, first_delay=0.1, max_delay=1, deadline=1e9)


class Stage(Protocol):
    """A history's world, as its processes see it."""

    seed: int
    running: StateProcess | None
    late: list[tuple[StateProcess, Request, Callable[[], object]]]

    @property
    def storage(self) -> MemoryService:
        """What the processes share."""

    def note(self, process: StateProcess, request: Request, fault: Fault | None) -> None:
        """A process makes a request."""


class StateProcess(Intercept):
    """A process of a history. `act` is what it does; it gets the process."""

    @staticmethod
    def aim_of(request: Request) -> str:
        """What a request is for: where a history stops processes and places faults."""
        return aim_of(request)

    def __init__(self, world: Stage, kind: str, act: Callable[[Any], object], number: int) -> None:
        self.world, self.kind, self.number = world, kind, number
        self.draws = Random(world.seed * 1_000_003 + number)
        self.next: Request | None = None
        self.error: BaseException | None = None
        self.faults: list[tuple[str, Fault]] = []
        self.names: set[str] = set()
        """The random parts of the blobs' names that it has made."""
        self.writer = ""
        """The id under which it has opened the state."""
        self.record_reads = 0
        self.write_failed = False
        """Whether its last write of the record got no answer."""
        self.deleted: set[str] = set()
        """The blobs that it knows to be gone: it was told so when it deleted them."""
        self._ids = 0
        self._killed = False
        self.container = MemoryAccount(world.storage, intercept=self, policy=POLICY).container(BOX)
        self._act = act
        self._greenlet = greenlet(self._run)
        self.step()

    def __repr__(self) -> str:
        return f"{self.kind}#{self.number}"

    def new_id(self) -> str:
        """A name that no other process makes."""
        self._ids += 1
        name = f"p{self.number}n{self._ids}"
        self.names.add(name)
        return name

    @property
    def ended(self) -> bool:
        """Whether it has returned, failed or died."""
        return bool(self._greenlet.dead)

    def step(self) -> None:
        """One request, and what follows up to the next one."""
        if not self.ended:
            before, self.world.running = self.world.running, self
            self._greenlet.switch()
            self.world.running = before

    def kill(self) -> None:
        """SIGKILL before its next request."""
        self._killed = True
        self.step()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        """Wait for the turn, then send the request."""
        if self._killed:
            raise ProcessDied
        self.next = request
        self._greenlet.parent.switch()
        if self._killed:
            raise ProcessDied
        self.next = None
        fault = self._fault(request)
        self.record_reads += self.aim_of(request) == "read record"
        if self.aim_of(request) == "write record":
            self.write_failed = fault is not None
        if self.aim_of(request) == "delete" and fault is None:
            self.deleted.add(request.name)
        self.world.note(self, request, fault)
        return send() if fault is None else self._fail(fault, request, send)

    def _run(self, *_: Any) -> None:
        try:
            self._act(self)
        except ProcessDied:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the history
            self.error = error

    def _fault(self, request: Request) -> Fault | None:
        for place, (aim, fault) in enumerate(self.faults):
            if aim in ("any", self.aim_of(request)):
                del self.faults[place]
                return fault
        return None

    def _fail(self, fault: Fault, request: Request, send: Callable[[], T]) -> T:
        match fault:
            case Throttle(retry_after):
                raise Throttled("503 ServerBusy", retry_after=retry_after)
            case LateEffect():
                self.world.late.append((self, request, send))
                raise Ambiguous("no answer within the time limit")
            case LostAnswer():
                effect(send)
                raise Ambiguous("the connection was reset before the answer")
            case Crash(after_effect):
                if after_effect:
                    effect(send)
                self._killed = True
                raise ProcessDied
            case _:
                assert isinstance(fault, Reset)
                raise Ambiguous("the connection was reset")


def effect(send: Callable[[], object]) -> None:
    """Send a request whose answer is lost."""
    try:
        send()
    except (Failure, AzureBlobError):
        return


def aim_of(request: Request) -> str:
    """What a request is for: where a history stops processes and places faults."""
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

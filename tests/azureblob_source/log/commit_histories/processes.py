"""Processes that a history moves request by request: each is a greenlet that rests before its next request.

Thread pools of the code under test run inline, in an order that the process draws, so that a history depends on its
seed alone. Faults are placed below the retries, as in `azure_account.memory.faults`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as parallel_wait
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from greenlet import greenlet

from azure_account import parallel
from azure_account.errors import AzureBlobError
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, LateEffect, LostAnswer, ProcessDied, Reset, Throttle
from azure_account.retrying.retry_loop import Intercept, Request
from azure_account.service import Ambiguous, Failure, Throttled
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import BATCHES, log_version

if TYPE_CHECKING:
    from azure_account.account import BlobContainer
    from azure_account.clock import Clock
    from tests.azureblob_source.log.commit_histories.simulation import Simulation

T = TypeVar("T")
CONTAINER = "container"


class HistoryProcess(Intercept):
    """A process of a history. `act` is what it does; it gets the process and its container."""

    def __init__(
        self, simulation: Simulation, kind: str, act: Callable[[HistoryProcess], object], seed: int, query: str = ""
    ) -> None:
        self.simulation = simulation
        self.kind = kind
        self.query = query
        self.number = simulation.next_process()
        self.draws = Random(seed * 1_000_003 + self.number)
        self.next: Request | None = None
        self.error: BaseException | None = None
        self.faults: list[tuple[str, Fault]] = []
        self.requests = 0
        self.born = simulation.expiries
        self.voids_seen = simulation.truth.voids
        self._killed = False
        account = MemoryAccount(simulation.service, intercept=self)
        self.container: BlobContainer = account.container(CONTAINER)
        self._act = act
        self._greenlet = greenlet(self._run)
        self._resume()

    def __repr__(self) -> str:
        return f"{self.kind}#{self.number}"

    @property
    def ended(self) -> bool:
        """Whether it has returned, failed or died."""
        return bool(self._greenlet.dead)

    def step(self) -> bool:
        """One request. False when the process has ended."""
        if not self.ended:
            self._resume()
        return not self.ended

    def kill(self) -> None:
        """SIGKILL before its next request."""
        self._killed = True
        if not self.ended:
            self._resume()

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        """Wait for the turn, then send the request."""
        self.next = request
        self._greenlet.parent.switch()
        if self._killed:
            raise ProcessDied
        self.next = None
        self.requests += 1
        fault = self._fault(request)
        self.simulation.note_request(self, request, fault)
        return send() if fault is None else self._fail(fault, request, send)

    def _resume(self) -> None:
        self.simulation.running = self
        self._greenlet.switch()

    def _run(self) -> None:
        try:
            self._act(self)
        except ProcessDied:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the history
            self.error = error

    def _fault(self, request: Request) -> Fault | None:
        for place, (aim, fault) in enumerate(self.faults):
            if aim in ("any", aim_of(request)):
                del self.faults[place]
                return fault
        return None

    def _fail(self, fault: Fault, request: Request, send: Callable[[], T]) -> T:
        match fault:
            case Throttle(retry_after):
                raise Throttled("503 ServerBusy", retry_after=retry_after)
            case LateEffect():
                self.simulation.late.append((request, send, self.simulation.expiries, self.simulation.truth.voids))
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
    """What a request is for, as far as its name says: where a history stops processes and places faults."""
    match request.operation:
        case "put" if request.name.endswith("_first.json"):
            return "boundary"
        case "put" if log_version(request.name) is not None:
            return "commit"
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


class _Inline:
    """A `ThreadPoolExecutor` that runs its calls at once, in an order that the running process draws."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> _Inline:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def shutdown(self, **_: object) -> None:
        """Nothing is left to do."""

    def map(self, act: Callable[..., T], *items: Sequence[Any], timeout: float | None = None) -> Iterator[T]:
        """Every call is made, and the first error in order raised, as of a pool."""
        given = list(zip(*items, strict=False))
        order = list(range(len(given)))
        _draws.shuffle(order)
        answers: dict[int, Callable[[], T]] = {}
        for place in order:
            answers[place] = _answer(act, given[place])
        for place in range(len(given)):
            yield answers[place]()

    def submit(self, act: Callable[..., T], /, *given: object) -> Future[T]:
        """A call that is made when it is waited for."""
        return _Submitted(partial(_answer, act, given))


class _Submitted(Future[T]):
    def __init__(self, make: Callable[[], Callable[[], T]]) -> None:
        super().__init__()
        self._make = make

    def make(self) -> None:
        answer = self._make()
        try:
            self.set_result(answer())
        except Exception as error:  # noqa: BLE001 - raised where the pool would raise it
            self.set_exception(error)


def _wait(submitted: Iterable[Future[Any]], **when: Any) -> object:
    """Make the calls that have been submitted, in an order that the running process draws."""
    calls = list(submitted)
    left = [call for call in calls if isinstance(call, _Submitted) and not call.done()]
    _draws.shuffle(left)
    for call in left:
        call.make()
    return parallel_wait(calls, **when)


def _answer(act: Callable[..., T], given: tuple[Any, ...]) -> Callable[[], T]:
    try:
        found = act(*given)
    except Exception as error:  # noqa: BLE001 - raised where the pool would raise it
        return _raise(error)
    return lambda: found


def _raise(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


_draws = Random(0)


@contextmanager
def inline_pools(clock: Clock, seed: int) -> Iterator[None]:
    """No threads, and the history's clock for every log, while this lasts."""
    _draws.seed(seed)
    modules = [
        module for name, module in sys.modules.items() if name.startswith(("azure_account.", "azureblob_source."))
    ]
    pooled = [module for module in modules if "ThreadPoolExecutor" in vars(module)]
    pools = [vars(module)["ThreadPoolExecutor"] for module in pooled]
    defaults: dict[str, Any] = CommitLog.__init__.__kwdefaults__ or {}
    before = defaults["clock"]
    for module in pooled:
        module.ThreadPoolExecutor = _Inline  # type: ignore[attr-defined]
    parallel.wait = _wait  # type: ignore[assignment, attr-defined]
    defaults["clock"] = clock
    try:
        yield
    finally:
        for module, pool in zip(pooled, pools, strict=True):
            module.ThreadPoolExecutor = pool  # type: ignore[attr-defined]
        parallel.wait = parallel_wait  # type: ignore[attr-defined]
        defaults["clock"] = before

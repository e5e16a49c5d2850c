"""Leadership in a process: a thread that takes part in the election, and one that watches the deadline.

A renewal may hang longer than the lease lasts. The second thread deposes the process in time all the same.
"""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Protocol

from azure_account.location import Location
from azure_account.names import check_blob
from coordination.connect import brief_account
from coordination.leadership.election import Deposed, Elected, Election, TermEnd
from coordination.leadership.lease import Lease
from coordination.metrics import ProcessorMetrics
from coordination.timing import STOP_SECONDS, LeaseTiming
from coordination.waits import Waits
from foundation.arguments import Name, Wait, checked
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConflictError, FencedError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from coordination.leadership.election import Change

logger = logging.getLogger("coordination")


class LeaderListener(Protocol):
    """What a process does as a leader. The methods are called one at a time, by threads of the elector; be quick."""

    def on_elected(self, epoch: int) -> None:
        """The process leads. Present `epoch` in every guarded write."""

    def on_deposed(self, reason: str) -> None:
        """The process no longer leads: stop at once. The lease is not released before this returns.

        Called before another process can lead, unless this one was suspended, or the lease was broken or its blob
        deleted. If it raises, the lease is not released at all: other processes wait until it expires.
        """

    def on_failure(self, error: Exception) -> None:
        """The elector has stopped, called once: storage refuses a request for good, or the listener raised `error`."""


class LeaderElector:
    """Takes part in an election until `stop`.

    where: `container/blob`: the leased blob; its name is that of the election.
    holder: the name of this process.
    listener: what it does as a leader.
    timing: durations, in seconds.
    once: it does not take part again after it was deposed.

    If it cannot go on, it calls `on_deposed`, if the process leads, and then `on_failure`.
    """

    @checked
    def __init__(
        self,
        where: Location,
        holder: Name,
        listener: LeaderListener,
        timing: LeaseTiming | None = None,
        *,
        once: bool = False,
    ) -> None:
        timing = timing or LeaseTiming()
        self._where, blob = where, where.path
        check_blob(blob)
        self._container = brief_account(where, timing.request).container(where.container)
        lease = Lease(self._container, blob, holder, timing, clock=SYSTEM_CLOCK, new_id=lambda: str(uuid.uuid4()))
        self._election, self._listener = Election(lease), listener
        self.metrics: ProcessorMetrics = ProcessorMetrics(blob, holder)
        self._changed = threading.Condition()  # guards the election's term, and all calls of the listener
        self._stopping, self._once = False, once
        self._leading: int | None = None  # the epoch in which `on_elected` was called, until `on_deposed` is
        self._may_release, self._failed = True, False
        self._waits, self._over = Waits(f"{holder} of {lease.target}", SYSTEM_CLOCK, timing.request), threading.Event()
        self.reason: str = ""
        """Why the last request did not elect this process or keep it elected; empty if it did, or before that."""
        self._threads = [
            threading.Thread(target=self._run, args=(act,), name=f"{blob}-{act.__name__.strip('_')}", daemon=True)
            for act in (self._elect, self._watch)
        ]

    def start(self) -> None:
        """Begin. Call it once."""
        self._waits.watch(self._over)
        for thread in self._threads:
            thread.start()

    @checked
    def stop(self, within: Wait = STOP_SECONDS) -> None:
        """Resign, if this process leads, and end: call `on_deposed`, and then release the lease.

        Returns when that is done and both threads have ended, or after these seconds, if the listener hangs: then the
        lease is not released, and an error is logged. If a method of the listener calls it, it returns at once, and the
        elector ends after that method.
        """
        clock = self._election.lease.clock
        end, self._stopping = clock.monotonic() + within, True
        if self._changed.acquire(timeout=within):
            self._changed.notify_all()
            self._changed.release()
        if threading.current_thread() in self._threads:
            return
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, end - clock.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            target = self._election.lease.target
            logger.error("the election for %s has not ended for %.0f s: its listener hangs", target, within)

    def leads(self) -> bool:
        """Whether this process leads at this moment. True at most until a margin before the lease can expire."""
        return self._leading is not None and self._election.leads()

    @property
    def epoch(self) -> int | None:
        """The epoch in which this process leads; None if it does not."""
        epoch = self._leading
        return epoch if self._election.leads() else None

    def _run(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - a thread that ends without notice ends the elector in silence
            self._fail(error)
        if act == self._elect:  # it ends after all calls of the listener
            self._over.set()

    def _elect(self) -> None:
        step = self._first_step
        while not self._stopping:
            self._apply(step())
            step = self._election.step
            with self._changed:
                if not self._stopping:
                    self._changed.wait(self._election.wait)
        self._depose("it resigned", TermEnd.RESIGNED)
        self._release()

    def _first_step(self) -> Change:
        """Creates the container if it is absent. Later that is an error: the epochs were in it."""
        try:
            return self._election.step()
        except NotFoundError:
            self._where.prepare(self._container)
            return self._election.step()

    def _watch(self) -> None:
        lease = self._election.lease
        with self._changed:
            while not self._stopping:
                term = self._election.term
                leading = term is not None and term.epoch == self._leading
                if term is None or not leading:
                    self._changed.wait()
                elif lease.holds(term):
                    self._changed.wait(term.deadline - lease.clock.monotonic())
                else:
                    self._depose("the lease was not renewed in time", TermEnd.LATE)
            self._depose("it resigned", TermEnd.RESIGNED)

    def _apply(self, change: Change) -> None:
        """Call the listener. A renewal that was answered after the deadline does not bring a term back."""
        with self._changed:
            self.reason = "" if isinstance(change, Elected) else change.reason
            if isinstance(change, Elected) and self._election.leads() and not self._stopping:
                self._leading = change.term.epoch
                self.metrics.count("termsBegun")
                logger.info("epoch %d of %s begins: this process leads", change.term.epoch, self._election.lease.target)
                with self._waits.on("its listener, which has been elected"):
                    self._listener.on_elected(change.term.epoch)
            elif isinstance(change, Deposed):
                self._depose(change.reason, change.ending)
            elif self._leading is None:
                self._release()
            self._changed.notify_all()

    def _depose(self, reason: str, ending: TermEnd) -> None:
        with self._changed:
            if self._leading is None:
                return
            logger.log(ending.log_level, "epoch %d of %s ends: %s", self._leading, self._election.lease.target, reason)
            self._leading, self._stopping = None, self._stopping or self._once
            self.metrics.count("termsEnded", reason=ending.value)
            self._may_release = False
            with self._waits.on("its listener, which has been deposed"):
                self._listener.on_deposed(reason)
            self._may_release = True

    def _release(self) -> None:
        """Release the lease, unless `on_deposed` raised: then what the lease protects may run on until it expires."""
        if self._may_release:
            self._election.resign()

    def _fail(self, error: BaseException) -> None:
        """End both threads. Only the first error is reported to the listener."""
        with self._changed:
            first, self._failed, self._stopping = not self._failed, True, True
            self._changed.notify_all()
            logger.error("the election for %s ends: %r", self._election.lease.target, error)
            refused = self._election.term is None  # else the listener raised it
            _attempt(lambda: self._depose(str(error) or repr(error), TermEnd.REFUSED if refused else TermEnd.RESIGNED))
            self._release()
            if first:
                _attempt(lambda: self._listener.on_failure(_as_exception(error)))


def _attempt(call: Callable[[], None]) -> None:
    """Call the listener. What it raises is logged: it gets the error before that."""
    try:
        call()
    except BaseException:
        logger.exception("the listener raised")


def _as_exception(error: BaseException) -> Exception:
    """The error itself; one with its text for what ends a process, such as `SystemExit`, which must not be raised."""
    return error if isinstance(error, Exception) else RuntimeError(f"The listener raised {error!r}.")


class LeaseLock:
    """A lock that one process at a time holds. It is renewed in the background.

    ```python
    with LeaseLock(Location("mycontainer/locks/report"), "driver-1", timeout=60) as lock:
        ...
        lock.check()        # before each step: raises `FencedError` if the lock was lost
    ```

    A lock alone does not stop a process that was suspended from finishing a write that it has begun. Where that
    matters, present `lock.epoch` in the write.
    """

    @checked
    def __init__(
        self,
        where: Location,
        holder: Name,
        timing: LeaseTiming | None = None,
        *,
        timeout: Wait | None = None,
    ) -> None:
        self._elector = LeaderElector(where, holder, self, timing, once=True)
        self._target, self._timeout = str(where), timeout
        self._answered = threading.Event()
        self._error: Exception | None = None
        self.lost: threading.Event = threading.Event()
        """Set when the lock is lost."""
        self.epoch: int = -1
        """The epoch in which the lock is held: higher each time that the lock is acquired. -1 before that."""

    def __enter__(self) -> Self:
        """Wait for the lock. `ConflictError` if it is not acquired within `timeout` seconds, with the last reason."""
        self._elector.start()
        try:
            self._answered.wait(self._timeout)
        except BaseException:  # such as Ctrl-C
            self._elector.stop()
            raise
        if self.epoch < 0:
            cause = self._elector.reason or "storage gave no answer"
            self._elector.stop()
            if self._error is not None:
                raise self._error
            step = "Wait longer, or try again later."
            raise ConflictError("acquire", f"lock {self._target}", cause, step, elapsed=self._timeout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""
        self._elector.stop()

    def check(self) -> None:
        """`FencedError` unless this process holds the lock at this moment."""
        if self.lost.is_set() or not self._elector.leads():
            text = f"Lock {self._target} of epoch {self.epoch} is lost: stop what it protects, and acquire it again."
            raise FencedError(text)

    def on_elected(self, epoch: int) -> None:
        """The lock is held."""
        self.epoch = epoch
        self._answered.set()

    def on_deposed(self, reason: str) -> None:  # noqa: ARG002 - the elector logs it
        """The lock is lost."""
        self.lost.set()

    def on_failure(self, error: Exception) -> None:
        """The lock cannot be acquired, or is lost."""
        self._error = error
        self._answered.set()

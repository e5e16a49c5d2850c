"""What a process waits for, and since when: storage, the listener, the function of tasks. The log says so."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foundation.clock import Clock

logger = logging.getLogger("coordination")

_AGAIN_SECONDS = 60.0
_LOOK_SECONDS = 1.0


@dataclass
class _Wait:
    """since, reported: when it began, and when the log has last said so (monotonic seconds)."""

    what: str
    since: float
    reported: float | None = None


class Waits:
    """The waits of one process. Thread-safe.

    who: the process, for the log. after: seconds that are no news.
    """

    def __init__(self, who: str, clock: Clock, after: float) -> None:
        self._who, self._clock, self._after = who, clock, after
        self._waits: list[_Wait] = []
        self._guard = threading.Lock()

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Note that a call waits for this until it returns."""
        wait = _Wait(what, self._clock.monotonic())
        with self._guard:
            self._waits.append(wait)
        try:
            yield
        finally:
            with self._guard:
                self._waits.remove(wait)
            if wait.reported is not None:
                waited = self._clock.monotonic() - wait.since
                logger.warning("%s has waited %.0f s for %s: it goes on", self._who, waited, what)

    def report(self) -> None:
        """Log what has been waited for too long; once a minute."""
        now = self._clock.monotonic()
        with self._guard:
            late = [wait for wait in self._late(now) if wait.reported is None or now - wait.reported >= _AGAIN_SECONDS]
            for wait in late:
                wait.reported = now
        for wait in late:
            logger.warning("%s waits for %s, since %.0f s", self._who, wait.what, now - wait.since)

    def watch(self, ended: threading.Event) -> None:
        """Report from now on, in a thread of its own, until this event."""

        def report() -> None:
            while not ended.wait(_LOOK_SECONDS):
                self.report()

        threading.Thread(target=report, name=f"{self._who}-waits", daemon=True).start()

    def text(self) -> str:
        """What has been waited for too long; empty if nothing is."""
        with self._guard:
            return ", and ".join(wait.what for wait in self._late(self._clock.monotonic()))

    def _late(self, now: float) -> list[_Wait]:
        return [wait for wait in self._waits if now - wait.since >= self._after]

"""When a query is to be stopped because it is not backed up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from foundation.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from foundation.clock import Clock


class BackupDeadline:
    """Due when backups have not succeeded for `seconds` since the first of them began. Thread-safe.

    A backup that still waits counts as one that has not succeeded. None: never.
    """

    def __init__(self, seconds: float | None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._seconds, self._clock = seconds, clock
        self._since: float | None = None
        self._reported: float | None = None
        self._ended = False
        self._changed = threading.Condition()

    def begin(self) -> None:
        """A backup begins."""
        with self._changed:
            if self._since is None:
                self._since = self._clock.monotonic()
                self._changed.notify_all()

    def succeed(self) -> None:
        """It has succeeded."""
        with self._changed:
            self._since = None

    def end(self) -> None:
        """There are no more backups: nothing is due."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def is_due(self) -> bool:
        """Whether the query is to be stopped now."""
        left = self._left()
        return left is not None and left <= 0

    def wait(self, pause: float) -> bool:
        """Wait until the query is to be stopped. False when there are no more backups.

        pause: seconds to the next time that the query is to be stopped, if backups still do not succeed.
        """
        with self._changed:
            if self._since is not None and self._reported == self._since:
                self._changed.wait(pause)
            while not self._ended and not self.is_due:
                self._changed.wait(self._left())
            self._reported = self._since
            return not self._ended

    def _left(self) -> float | None:
        """Seconds; None: no backup is at work or has failed."""
        since = self._since
        if self._seconds is None or since is None:
            return None
        return since + self._seconds - self._clock.monotonic()

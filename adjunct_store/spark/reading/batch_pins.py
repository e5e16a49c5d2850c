"""The pins of this process for batch jobs: one for each version, released when nothing can read it any more.

A DataFrame reads the version that was pinned when it was planned, and so does what is derived from it. A process that
plans many of them while versions are published would pin them all: each new pin releases those that are not used.
"""

from __future__ import annotations

import atexit
import logging
import threading
import uuid
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adjunct_store.versions.pins import pin_version, release
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import AzureBlobError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.manifest import Version
    from azure_account.location import Location

logger = logging.getLogger("adjunct_store")

_RELEASE_SECONDS = 5.0
"""Limit for releasing pins at the exit of the process, and unused pins when another one is made."""
_USERS = 16
"""Users of a pin that are noted before those that are gone are removed; later twice those that were left."""


@dataclass(eq=False)
class BatchPin:
    """A pin, and its users: functions that return True as long as the pin may be needed."""

    store: Location
    version: Version
    reader: str
    users: list[Callable[[], bool]] = field(default_factory=list)
    most_users: int = _USERS

    @property
    def used(self) -> bool:
        """Whether anything uses it."""
        return any(user() for user in self.users)

    def add(self, user: Callable[[], bool]) -> None:
        """Note another user."""
        if len(self.users) >= self.most_users:
            self.users = [each for each in self.users if each()]
            self.most_users = _USERS + 2 * len(self.users)
        self.users.append(user)


class PinHold:
    """Keeps a pin while a read is planned: as long as the caller has this object."""

    def __init__(self, pins: BatchPins, pin: BatchPin) -> None:
        self._pins = pins
        self.pin: BatchPin = pin

    def until(self, user: Callable[[], bool]) -> None:
        """Keep it also as long as the function is true."""
        self._pins.add(self.pin, user)

    def for_good(self) -> None:
        """Keep it until all pins are released."""
        self.until(lambda: True)


class BatchPins:
    """Pins of one process. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._pins: list[BatchPin] = []
        self._lock = threading.Lock()
        self._at_exit = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self._pins)

    def pin(self, store: Location, newest: Version, version: int | None) -> PinHold:
        """Pin the newest version, or a given one, unless this process has done so: then its pin is renewed if need be.

        newest: the one that was found.
        """
        with self._lock:
            found = next((pin for pin in self._pins if (pin.store, pin.version.number) == (store, newest.number)), None)
            if found is not None:
                pin_version(store.open(), store.path, found.reader, 0, version=newest.number)
                return self._held(found)
            if not self._at_exit:
                atexit.register(self.release_all, _RELEASE_SECONDS)
                self._at_exit = True
            reader = f"batch-{uuid.uuid4().hex}"
            pinned, _ = pin_version(store.open(), store.path, reader, 0, version=version)
            found = BatchPin(store, pinned, reader)
            self._pins.append(found)
            hold = self._held(found)
            self._release([pin for pin in self._pins if not pin.used], _RELEASE_SECONDS)
            return hold

    def add(self, pin: BatchPin, user: Callable[[], bool]) -> None:
        """Another user of a pin that is held."""
        with self._lock:
            pin.add(user)

    def release_all(self, seconds: float | None = None) -> None:
        """Release all, used or not. Those that cannot be released now are left for another call.

        seconds: for which to try, in all; by default for each as long as the account's options say.
        """
        if not self._lock.acquire(timeout=-1 if seconds is None else seconds):
            logger.warning("%d pins stay until they expire: another thread is pinning a version", len(self._pins))
            return
        try:
            self._release(list(self._pins), seconds)
        finally:
            self._lock.release()

    def _held(self, pin: BatchPin) -> PinHold:
        hold = PinHold(self, pin)
        there = weakref.ref(hold)
        pin.add(lambda: there() is not None)
        return hold

    def _release(self, pins: list[BatchPin], seconds: float | None) -> None:
        began = self._clock.monotonic()
        for pin in pins:
            reached = pin.store
            if seconds is not None:
                left = began + seconds - self._clock.monotonic()
                if left <= 0:
                    logger.warning("%d pins stay for now, such as on store %s", len(pins), pin.store)
                    return
                reached = pin.store.within(left)
            try:
                release(reached.open(), pin.store.path, pin.reader)
            except TransientError as error:
                text = "The pin of version %d of store %s stays until the next pin, or until it expires: %s"
                logger.warning(text, pin.version.number, pin.store, error)
                continue
            except AzureBlobError as error:
                logger.warning(
                    "The pin of version %d of store %s was not released, and will expire: %s",
                    pin.version.number,
                    pin.store,
                    error,
                )
            self._pins.remove(pin)

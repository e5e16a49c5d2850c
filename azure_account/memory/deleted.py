"""What soft delete keeps of deleted blobs, by the service's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from azure_account.service import Absent

if TYPE_CHECKING:
    from foundation.clock import Clock

T = TypeVar("T")


class DeletedBlobs(Generic[T]):
    """The last deleted blob of each name. seconds: how long it is kept; None keeps nothing."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock, self._seconds = clock, seconds
        self._blobs: dict[tuple[str, str], tuple[float, T]] = {}

    def keep(self, container: str, name: str, blob: T) -> None:
        """Keep a blob that has just been deleted."""
        if self._seconds is not None:
            self._blobs[container, name] = (self._clock.now() + self._seconds, blob)

    def take(self, container: str, name: str) -> T:
        """Take a blob out. `Absent` if there is none, or its time is over."""
        until, blob = self._blobs.pop((container, name), (0.0, None))
        if blob is None or self._clock.now() >= until:
            raise Absent("BlobNotFound: there is no such blob, deleted or not")
        return blob

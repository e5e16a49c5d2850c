"""What is left to do after a commit: take TTLs off the blobs that it has, delete those that are condemned.

Nothing depends on it, so an error is logged, and the next clean-up goes on. It makes no further request when the
service is out of reach. A delete may be refused for good, as by a legal hold, a lease or a missing permission. So that
backups do not become slower with every refusal, a clean-up ends its deletes after `GIVE_UP` failures in a row, and
tries at most `RETRIED` of the blobs again that it has failed to delete, those first that were not tried for longest.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from azure_account.values import Done, Missing
from foundation.errors import ConfigurationError, TransientError
from foundation.parallel import act_on_each

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from foundation.parallel import BulkResult
    from state_backup.record.store import StateStorage

logger = logging.getLogger("state_backup")

GIVE_UP = 20
"""Deletes that fail in a row before a clean-up leaves the rest to the next one."""
RETRIED = 100
"""Blobs that could not be deleted before and that one clean-up tries again."""


class CleanUp:
    """The clean-up of one writer. Not thread-safe."""

    def __init__(self, with_ttl: Collection[str]) -> None:
        self.with_ttl: set[str] = set(with_ttl)
        """Blobs of committed checkpoints whose TTL is to be taken off."""
        self.gone: set[str] = set()
        """Condemned blobs that are known to be deleted."""
        self.tags_refused: bool = False
        """Whether the service has refused tags; it is reported once."""
        self._kept: dict[str, None] = {}
        """Condemned blobs that could not be deleted, by the time of the last attempt."""

    def run(self, storage: StateStorage, condemned: Collection[str]) -> int:
        """Take TTLs off; delete condemned blobs. Returns how many of these are gone now."""

        def take_ttl_off(blob: str) -> bool:
            return self._take_ttl_off(storage, blob)

        def delete(blob: str) -> bool:
            return isinstance(storage.container.delete(blob), Done | Missing)

        self.with_ttl -= _each(storage, take_ttl_off, sorted(self.with_ttl)).done
        self.gone &= set(condemned)
        self._kept = {blob: None for blob in self._kept if blob in condemned}
        new = sorted(set(condemned) - self.gone - set(self._kept))
        acted = _each(storage, delete, [*new, *[*self._kept][:RETRIED]], GIVE_UP)
        self.gone |= acted.done
        for blob in acted.done | set(acted.failed):
            self._kept.pop(blob, None)
        self._kept |= dict.fromkeys(sorted(acted.failed))
        return len(acted.done)

    def _take_ttl_off(self, storage: StateStorage, blob: str) -> bool:
        try:
            return isinstance(storage.container.set_tags(blob, {}), Done)
        except ConfigurationError as refused:  # such as a permission: often for good, and one warning is enough
            if not self.tags_refused:
                self.tags_refused = True
                text = (
                    "index tags are refused, blobs keep their TTL: the clean-up of %s goes on with the next backup: %s"
                )
                logger.warning(text, storage.state, refused)
            return False


def _each(
    storage: StateStorage, act: Callable[[str], bool], blobs: Sequence[str], give_up: int | None = None
) -> BulkResult:
    acted = act_on_each(act, blobs, storage.threads, give_up=give_up, ends=TransientError)
    if acted.errors:
        logger.warning("the clean-up of %s goes on with the next backup: %s", storage.state, acted.errors[0])
    return acted

"""Copies of blobs on the server: each is made once, by any number of processes.

blob ─► Copy Blob if absent ─► done, or there already ─► wait until it is whole ─► True: the blob may be deleted
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.values import IF_ABSENT, Condition, Done, Missing
from foundation.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties
    from foundation.clock import Clock

_POLL = 0.5


def keep_copy(container: BlobContainer, blob: BlobProperties, name: str, timeout: float, clock: Clock) -> bool:
    """Copy a blob to `name`, unless it is there. False if the blob is gone, or another version, or nothing is known.

    timeout: seconds for which a copy that goes on is waited for; then `TransientError`. `ConfigurationError` if the
    copy is refused.
    """
    condition = IF_ABSENT
    for _ in range(2):
        answer = container.copy(name, blob.name, source_etag=blob.etag, condition=condition)
        if isinstance(answer, Done) and answer.etag:
            return True
        found = _ended(container, name, timeout, clock)
        if found is None:
            return False
        if _is_copy(found, blob):
            return True
        condition = Condition(if_match=found.etag)
    return False


def _is_copy(found: BlobProperties, of: BlobProperties) -> bool:
    whole = found.copy_status in (None, "success") and found.size == of.size
    return whole and dict(found.metadata) == dict(of.metadata)


def _ended(container: BlobContainer, name: str, timeout: float, clock: Clock) -> BlobProperties | None:
    """What has a name once no copy to it goes on; None if nothing has."""
    started = clock.monotonic()
    while True:
        found = container.properties(name)
        if found is None or found.copy_status != "pending":
            return found
        if clock.monotonic() - started >= timeout:
            place, step = f"blob {name} in {container.url}", "The next write to the stream, or a repair, goes on."
            raise TransientError("keep", place, "the service is still copying it", step, elapsed=timeout)
        clock.sleep(_POLL)


def probe_copy(container: BlobContainer, name: str) -> None:
    """`ConfigurationError` if the service refuses to copy a trial blob. The copy is deleted."""
    there, copy = container.properties(name), f"{name}-copy"
    if there is None:  # another process has tried, and deleted it
        return
    try:
        answer = container.copy(copy, name, source_etag=there.etag)
    except ConfigurationError as error:
        raise _refused(name, error.cause, error.next_step) from error
    if isinstance(answer, Missing) and container.properties(name) is not None:
        raise _refused(name, "the service does not find it, though it is there", "Grant the permission to read it.")
    container.delete(copy)


def _refused(name: str, cause: str, step: str) -> ConfigurationError:
    step = f"Nothing was committed. {step} Or leave option `keepReplaced` out.".replace("  ", " ")
    return ConfigurationError("copy", f"a trial blob {name}", cause, step)

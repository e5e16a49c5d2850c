"""The lease of a blob, with the states of Azure: available, leased, expired or broken, by the service's clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from azure_account.service import ConditionFailed


@dataclass(frozen=True)
class LeaseRecord:
    """The last lease of a blob. It is active until `until` (seconds) unless broken.

    `written` says that the blob was written after the lease had expired; then it cannot be renewed.
    """

    lease_id: str
    seconds: int
    until: float
    broken: bool = False
    written: bool = False

    def active(self, now: float) -> bool:
        """Whether it protects the blob at `now`."""
        return not self.broken and now < self.until

    def expired(self, now: float) -> bool:
        """Whether it has ended by itself."""
        return not self.broken and now >= self.until


def acquire(lease: LeaseRecord | None, lease_id: str, seconds: int, now: float) -> LeaseRecord:
    """A new lease; `ConditionFailed` while another id has an active one. The holder may acquire it again."""
    if lease is not None and lease.active(now) and lease.lease_id.lower() != lease_id.lower():
        raise ConditionFailed("LeaseAlreadyPresent: another holder has the lease")
    return LeaseRecord(lease_id, seconds, now + seconds)


def renew(lease: LeaseRecord | None, lease_id: str, now: float) -> LeaseRecord:
    """The lease with a new term; an expired one too, unless another id acquired it or the blob was written since."""
    found = _held(lease, lease_id)
    if found.broken:
        raise ConditionFailed("LeaseIsBrokenAndCannotBeRenewed: the lease was broken")
    if found.written:
        raise ConditionFailed("LeaseIdMismatchWithLeaseOperation: the lease has expired and the blob was written since")
    return replace(found, until=now + found.seconds)


def release(lease: LeaseRecord | None, lease_id: str) -> None:
    """`ConditionFailed` unless the last lease is that of `lease_id`."""
    _held(lease, lease_id)


def broken(lease: LeaseRecord | None) -> LeaseRecord:
    """The lease, broken; `ConditionFailed` if there is none."""
    if lease is None:
        raise ConditionFailed("LeaseNotPresentWithLeaseOperation: there is no lease")
    return replace(lease, broken=True)


def check_write(lease: LeaseRecord | None, lease_id: str | None, now: float) -> None:
    """`ConditionFailed` unless a write with `lease_id` is allowed."""
    if lease is None or not lease.active(now):
        if lease_id is not None:
            raise ConditionFailed("LeaseNotPresentWithBlobOperation: the lease is not held any more")
        return
    if lease_id is None:
        raise ConditionFailed("LeaseIdMissing: the blob is leased and the request has no lease id")
    if lease_id.lower() != lease.lease_id.lower():
        raise ConditionFailed("LeaseIdMismatchWithBlobOperation: another holder has the lease")


def after_write(lease: LeaseRecord | None, now: float) -> LeaseRecord | None:
    """The lease after a write at `now`."""
    return lease if lease is None or lease.active(now) else replace(lease, written=True)


def _held(lease: LeaseRecord | None, lease_id: str) -> LeaseRecord:
    if lease is None:
        raise ConditionFailed("LeaseNotPresentWithLeaseOperation: there is no lease")
    if lease.lease_id.lower() != lease_id.lower():
        raise ConditionFailed("LeaseIdMismatchWithLeaseOperation: another holder has the lease")
    return lease

"""Delete what no checkpoint needs: what crashed backups have left, and what was condemned.

    list the blobs ─► read the record ─► read the indexes of its checkpoints ─► condemn the rest in the record ─► delete

The order is what makes it safe (decision 15). A backup that is at work has blobs that no checkpoint names yet: if they
are condemned, its commit meets a changed record, and uploads them again. To spare it that, blobs younger than `min_age`
are left for the next sweep; that is courtesy, not safety.

A sweep also takes the TTL off blobs in use: a writer that has died after its commit, and is not replaced for 30 days,
would lose them to the lifecycle rule.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.location import Location
from azure_account.values import Done, Missing
from foundation.arguments import Count, Wait, checked
from foundation.errors import ConflictError, CorruptError, NotFoundError, TransientError
from foundation.parallel import act_on_each, concurrent_map
from state_backup.metrics import StateMetrics
from state_backup.record.record import MOST_CONDEMNED
from state_backup.record.store import list_blobs, open_location, read_index, record_store
from state_backup.record.ttl import TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azure_account.container import BlobContainer
    from azure_account.documents.document import Stored
    from azure_account.values import BlobProperties
    from state_backup.record.names import StateNames
    from state_backup.record.record import CheckpointRecord

logger = logging.getLogger("state_backup")

DAY_SECONDS = 24 * 3600.0
_ATTEMPTS = 5


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep found. in_use: blobs by the checkpoint ids that need them. waste: blobs that none needs, with size.

    young: waste that is left for the next sweep, with the seconds until it is old enough; infinity for a blob of which
    there are staged blocks only. sizes: of all blobs that are there. with_ttl: blobs in use that have the TTL's tag.
    """

    stored: Stored[CheckpointRecord]
    in_use: Mapping[str, tuple[str, ...]]
    waste: Mapping[str, int]
    young: Mapping[str, float]
    sizes: Mapping[str, int]
    with_ttl: tuple[str, ...] = ()


@checked
def plan_sweep(where: Location, *, min_age: Wait = DAY_SECONDS, threads: Count = 16) -> SweepPlan:
    """Find what can be deleted of a state. Changes nothing.

    where: the state.
    min_age: seconds, by the service's clock. What is younger is left for the next sweep.
    threads: requests at a time.

    `NotFoundError` if there is no record; `ConflictError` if backups drop
    checkpoints faster than these can be read; whatever else keeps an index from being read is raised: what cannot be
    read might be needed.
    """
    container, names = open_location(where)
    blobs, refused = list_blobs(container, names.prefixes, uncommitted=True)
    if refused is not None:
        logger.warning("index tags are refused, so the sweep of %s takes no TTL off: %s", names.state, refused)
    stored, in_use = _read_in_use(container, names)
    waste = [blob for blob in blobs if blob.name not in in_use]
    young = _young(container, waste, min_age, threads) if min_age > 0 else {}
    old = [blob for blob in waste if blob.name not in young]
    return SweepPlan(
        stored,
        in_use,
        {blob.name: blob.size for blob in _fitting(old, stored.document)},
        young,
        {blob.name: blob.size for blob in blobs},
        tuple(blob.name for blob in blobs if blob.name in in_use and TAG in blob.tags),
    )


def _fitting(waste: Sequence[BlobProperties], record: CheckpointRecord) -> list[BlobProperties]:
    """What the list of condemned names has, or has room for. The next sweep takes the rest.

    Names of blobs that are gone take no room: only a writer takes them off the list, and there may be none any more.
    """
    names = set(record.condemned)
    condemned = [blob for blob in waste if blob.name in names]
    new = [blob for blob in waste if blob.name not in names]
    return condemned + new[: max(0, MOST_CONDEMNED - len(condemned))]


def _read_in_use(
    container: BlobContainer, names: StateNames
) -> tuple[Stored[CheckpointRecord], dict[str, tuple[str, ...]]]:
    """The record, and the blobs that it needs. It is read again if a checkpoint in it is dropped meanwhile."""
    records = record_store(container, names)
    for _ in range(_ATTEMPTS):
        stored = records.read()
        if stored is None:
            step = "Check the name. If the record was deleted, bring it back: a restore undeletes it."
            raise NotFoundError("sweep", f"state {names.state}", "it has no checkpoint record", step)
        try:
            return stored, _in_use(container, stored.document)
        except (CorruptError, NotFoundError) as error:
            if records.read() == stored:
                step = "Open the state and back it up once: that drops checkpoints whose index cannot be read."
                raise type(error)("sweep", f"state {names.state}", error.failure, step) from error
    cause = "its checkpoints were dropped by newer ones faster than they could be read"
    raise ConflictError("sweep", f"state {names.state}", cause, "Run it again.")


@checked
def sweep(
    where: Location,
    plan: SweepPlan,
    progress: Callable[[int], object] = lambda _: None,
    *,
    threads: Count = 16,
) -> int:
    """Take TTLs off; condemn the waste of a plan, then delete it. Returns how many blobs are gone.

    where: the state.
    plan: of `plan_sweep` for the same state.
    progress: is called with 1 for each blob, by several threads.
    threads: requests at a time.

    A blob that cannot be deleted, such as one under a legal hold, keeps no other back: it is logged, and left.
    `TransientError` if the service stays out of reach, `ConflictError` if the record was changed since the plan was
    made: make another one.
    """
    container, names = open_location(where)
    state = names.state

    def take_ttl_off(blob: str) -> bool:
        return isinstance(container.set_tags(blob, {}), Done)

    errors = act_on_each(take_ttl_off, plan.with_ttl, threads, fatal=TransientError).errors
    if errors:
        logger.warning("%d blobs of %s keep their TTL: %s", len(errors), state, errors[0])
    if not plan.waste:
        return 0
    record = plan.stored.document
    condemned = tuple(sorted({*record.condemned, *plan.waste}))
    records = record_store(container, names)
    if records.write(replace(record, condemned=condemned), plan.stored) is None:
        cause = "a backup or another sweep has changed its record meanwhile"
        raise ConflictError("sweep", f"state {state}", cause, "Run it again.")

    def delete(blob: str) -> bool:
        gone = isinstance(container.delete(blob), Done | Missing)
        progress(1)
        return gone

    acted = act_on_each(delete, tuple(plan.waste), threads, fatal=TransientError)
    if acted.errors:
        logger.warning("%d blobs of %s are left for the next sweep: %s", len(acted.failed), state, acted.errors[0])
    StateMetrics(state).count("blobsDeleted", len(acted.done))
    size = sum(plan.waste[blob] for blob in acted.done)
    text = "state %s: a sweep has deleted %d blobs with %d bytes, and left %d that are young"
    logger.info(text, state, len(acted.done), size, len(plan.young))
    return len(acted.done)


def _in_use(container: BlobContainer, record: CheckpointRecord) -> dict[str, tuple[str, ...]]:
    needed: dict[str, list[str]] = {}
    read: dict[str, frozenset[str]] = {}
    for checkpoint in record.checkpoints:
        for index in sorted(checkpoint.indexes.values()):
            if index not in read:
                read[index] = read_index(container, index).blob_ids()
            for blob in {index, *read[index]}:
                needed.setdefault(blob, []).append(str(checkpoint.id))
    return {blob: tuple(ids) for blob, ids in needed.items()}


def _young(container: BlobContainer, blobs: Sequence[BlobProperties], min_age: float, threads: int) -> dict[str, float]:
    """The blobs that are younger than `min_age`, and the seconds until they are not."""
    ages = concurrent_map(lambda blob: _age(container, blob), blobs, threads, after_error="wait")
    return {
        blob.name: min_age - age if blob.committed else math.inf
        for blob, age in zip(blobs, ages, strict=True)
        if age < min_age
    }


def _age(container: BlobContainer, blob: BlobProperties) -> float:
    """Seconds since the blob was written. Staged blocks have no age, so they count as young until Azure drops them."""
    if not blob.committed:
        return 0.0
    age = container.age(blob.name)
    return DAY_SECONDS * 365 if age is None else age

"""Reads what `ls` and `sweep --explain` show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.parallel import concurrent_map
from state_backup.record.names import RECORD, StateNames
from state_backup.record.store import read_index, record_store
from state_backup.record.ttl import TAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure_account.container import BlobContainer
    from state_backup.record.record import Checkpoint, CheckpointRecord

_REQUESTS_AT_ONCE = 16
_INDEX = re.compile(r"(.+)/index/[0-9a-f]+\.json")
"""The name of a snapshot index, in its state."""


@dataclass(frozen=True)
class FoundState:
    """A state in a listing. record: None if it cannot be read: `problem` in two words, and its `cause`."""

    state: str
    record: CheckpointRecord | None
    problem: str = ""
    cause: str = ""

    @property
    def newest(self) -> Checkpoint | None:
        """The newest checkpoint."""
        return None if self.record is None else self.record.newest


@dataclass(frozen=True)
class CheckpointSize:
    """Files and bytes of a checkpoint, by its snapshot indexes; None if one cannot be read, for the `cause`."""

    checkpoint: Checkpoint
    files: int | None
    bytes: int | None
    cause: str = ""


def read_record(container: BlobContainer, state: str) -> CheckpointRecord | None:
    """The record of a state; None if there is none."""
    stored = record_store(container, StateNames(state)).read()
    return None if stored is None else stored.document


def find_states(container: BlobContainer, prefix: str) -> list[FoundState]:
    """All states whose place begins with the levels of `prefix`, in name order; also those that lost their record."""
    below = f"{prefix}/" if prefix else ""
    with_record, with_index = set[str](), set[str]()
    for blob in container.list(below):
        if blob.name.endswith(f"/{RECORD}"):
            with_record.add(blob.name.removesuffix(f"/{RECORD}"))
        elif found := _INDEX.fullmatch(blob.name):
            with_index.add(found[1])
    states = sorted(with_record | {state for state in with_index if _is_state(state)})
    return concurrent_map(lambda state: _found(container, state), states, _REQUESTS_AT_ONCE, after_error="wait")


def checkpoint_sizes(container: BlobContainer, record: CheckpointRecord) -> list[CheckpointSize]:
    """The sizes of all checkpoints of a record. Each index is read once."""
    blobs = sorted({blob for each in record.checkpoints for blob in each.indexes.values()})
    read = concurrent_map(lambda blob: _index_sizes(container, blob), blobs, _REQUESTS_AT_ONCE, after_error="wait")
    of = dict(zip(blobs, read, strict=True))
    found = []
    for checkpoint in record.checkpoints:
        sizes = [of[blob] for blob in checkpoint.indexes.values()]
        lost = next((each for each in sizes if isinstance(each, str)), None)
        if lost is not None:
            found.append(CheckpointSize(checkpoint, None, None, lost))
        else:
            files = [size for each in sizes if not isinstance(each, str) for size in each]
            found.append(CheckpointSize(checkpoint, len(files), sum(files)))
    return found


def blobs_with_ttl(container: BlobContainer, blobs: Iterable[str]) -> frozenset[str]:
    """The blobs that have the TTL tag. None have where tags are refused."""

    def has_ttl(blob: str) -> bool:
        try:
            return TAG in container.tags(blob)
        except (ConfigurationError, NotFoundError):
            return False

    wanted = list(blobs)
    have = concurrent_map(has_ttl, wanted, _REQUESTS_AT_ONCE, after_error="wait")
    return frozenset(blob for blob, has in zip(wanted, have, strict=True) if has)


def _found(container: BlobContainer, state: str) -> FoundState:
    try:
        record = read_record(container, state)
    except (ConfigurationError, CorruptError) as error:
        return FoundState(state, None, "unreadable", str(error))
    if record is None:
        step = "A restore undeletes it, if the account has soft delete; else bring it back from an earlier version."
        return FoundState(state, None, "record is gone", f"its record, {StateNames(state).record}, is gone. {step}")
    return FoundState(state, record)


def _is_state(name: str) -> bool:
    try:
        StateNames(name)
    except ConfigurationError:
        return False
    return True


def _index_sizes(container: BlobContainer, blob: str) -> list[int] | str:
    try:
        index = read_index(container, blob)
    except NotFoundError:
        return f"index {blob} is gone"
    except (ConfigurationError, CorruptError) as error:
        return str(error)
    return [file.metadata.size for _, file in index.root.files()]

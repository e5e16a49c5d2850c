"""What an audit has found, and what to do about it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(StrEnum):
    """What is wrong.

    missing: a blob of a published entry is not visible.
    altered: it has another size or attempt, or was written again since it was published.
    doubled: a copy of a live blob, under another name.
    foreign: a blob that this package has not written, and no entry names.
    revoked: a blob of an entry that was voided, reverted, replaced or overwritten, or a copy of one, is visible.
    unnamed: a blob that this package has written is visible, and no entry names it.
    log: an entry is missing, damaged, or of another log.
    """

    MISSING = "missing"
    ALTERED = "altered"
    DOUBLED = "doubled"
    FOREIGN = "foreign"
    REVOKED = "revoked"
    UNNAMED = "unnamed"
    LOG = "log"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a blob, or with the log. version: of the entry concerned, as far as it is known."""

    kind: Kind
    name: str
    version: int | None
    what: str
    advice: str


@dataclass(frozen=True)
class Pending:
    """What a writer, or the next one, is going to finish: no finding. age: seconds, by the service's clock."""

    version: int | None
    what: str
    age: float | None


@dataclass(frozen=True)
class Audit:
    """What an audit has found.

    first: the first version that counts.
    version: the head.
    published: up to which version all is published.
    blobs, rows, bytes: of the live blobs. None if these are not known, as entries are missing or damaged: then only the
    log was looked at.
    more: by kind, how many blobs beyond the first `MOST` of a kind differ, and were not looked at again.
    renewed: live blobs whose metadata a tool has changed, and whose blocks are those of their entry.
    young: blobs of this package that no entry names yet, which are not old enough to be findings; of an adopted folder
    all that are not adopted.
    kept: blobs that overwrites and restores have removed, and keep.
    listed: names in the listing. read: entries that were read. checkpoint: the version by whose checkpoint the live
    blobs are known; None: by entries alone.
    """

    stream: str
    first: int
    version: int
    published: int
    blobs: int | None
    rows: int | None
    bytes: int | None
    findings: tuple[Finding, ...] = ()
    pending: tuple[Pending, ...] = ()
    more: Mapping[str, int] = field(default_factory=dict)
    renewed: int = 0
    young: int = 0
    kept: int = 0
    listed: int = 0
    read: int = 0
    checkpoint: int | None = None

    @property
    def sound(self) -> bool:
        """Whether nothing was found: each committed row is in exactly one visible blob, but for what is pending."""
        return not self.findings and not self.more

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each kind there are, with those that were not looked at again."""
        found = Counter(str(each.kind) for each in self.findings) + Counter(self.more)
        return {kind: found[kind] for kind in Kind if found[kind]}


def advice(kind: Kind, place: str) -> str:
    """What to do about a finding. place: `container/stream`."""
    repair = f"`python -m azureblob_source repair {place}`"
    leave_out = f"`python -m azureblob_source repair {place} --leave-out-missing`"
    match kind:
        case Kind.MISSING:
            return f"Restore it (soft delete, versioning), or go on without its rows: {leave_out}."
        case Kind.ALTERED:
            return (
                "Restore the blob that was published (versioning), or delete this one and go on without its rows: "
                f"{leave_out}."
            )
        case Kind.DOUBLED:
            return "Delete it: its rows are in the other blob."
        case Kind.FOREIGN:
            return "Move it to another folder: readers of the log ignore it, those of the listing do not."
        case Kind.REVOKED:
            return f"Delete it: {repair}."
        case Kind.UNNAMED:
            return "Delete it, unless a batch with `deliveryGuarantee=at-least-once` that has published it still runs."
        case Kind.LOG:
            return "Restore the entry (soft delete, versioning). No row of it can be found without it."

"""A ledger: an owned document whose entries are only added."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from azure_account.documents.document import DocumentBlob, Stored
from azure_account.documents.owner import DocumentOwner, OwnedDocumentBlob
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer

BLOB = "ledger.json"


@dataclass(frozen=True)
class Ledger:
    epoch: int
    writer: str
    write_id: str = ""
    entries: tuple[str, ...] = ()


def to_json(ledger: Ledger) -> bytes:
    return json.dumps(asdict(ledger)).encode()


def from_json(data: bytes, blob: str) -> Ledger:
    fields = json.loads(data)
    if "damaged" in fields["entries"]:
        raise ConfigurationError(f"ledger {blob} cannot be read")
    return Ledger(**{**fields, "entries": tuple(fields["entries"])})


def ledgers(container: BlobContainer, new_id: Callable[[], str]) -> OwnedDocumentBlob[Ledger]:
    return OwnedDocumentBlob(DocumentBlob(container, BLOB, "ledger", to_json, from_json), "account 7", "clerk", new_id)


def own_ledger(
    store: OwnedDocumentBlob[Ledger], epoch: int | None = None, find: Callable[[], Stored[Ledger] | None] | None = None
) -> DocumentOwner[Ledger]:
    """Own the ledger. epoch: by default one above that of the ledger. find: by default, a deleted one is undeleted."""

    def own(before: Stored[Ledger] | None) -> Ledger:
        ledger = Ledger(0, "") if before is None else before.document
        return replace(ledger, epoch=ledger.epoch + 1 if epoch is None else epoch, writer=store.new_id())

    return store.open(own, find or (lambda: store.read() or store.undelete()))


def added(entry: str) -> Callable[[Ledger], Ledger]:
    """The transition that adds an entry, unless it is there."""

    def transition(ledger: Ledger) -> Ledger:
        return ledger if entry in ledger.entries else replace(ledger, entries=(*ledger.entries, entry))

    return transition

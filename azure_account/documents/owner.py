"""A document that one process owns at a time. Who opens it raises its epoch; the owner before is fenced.

    open      read ─► its epoch is above one's own: `FencedError`
                └───► write it with one's epoch and a new writer id ─► changed since the read: read again
    replace   write what was made of the document as last read ─► changed since: False
    refresh   read ─► another epoch or writer: `FencedError`; deleted: `ConflictError`
    change    replace by a transition ─► changed since: refresh, then the transition of what is there now

The writer id tells two processes apart that were given one epoch: the last one to open the document owns it. A change
that is not the owner's (`amend`) keeps epoch and writer, so the owner goes on from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from azure_account.documents.form import readable
from azure_account.undelete import undelete
from foundation.errors import ConflictError, FencedError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from azure_account.documents.document import DocumentBlob, Stored

_ATTEMPTS = 10
"""How often a change is made to a document that others change at the same time."""


class OwnedDocument(Protocol):
    """A frozen dataclass. epoch, writer: of its owner. write_id: each write gives it another one."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def epoch(self) -> int:
        """Raised by each opening."""

    @property
    def writer(self) -> str:
        """The id of the last opening."""

    @property
    def write_id(self) -> str:
        """The id of the last write."""


O = TypeVar("O", bound=OwnedDocument)  # noqa: E741 - an owned document


@dataclass(frozen=True)
class OwnedDocumentBlob(Generic[O]):
    """How an owned document is stored.

    documents: reads and writes it.
    subject: what it is the document of, such as `state flights/task-3`; owner: what an owner is called, such as
    `writer`. Both are for messages.
    new_id: returns an id that no other call returns.
    """

    documents: DocumentBlob[O]
    subject: str
    owner: str
    new_id: Callable[[], str]

    def read(self) -> Stored[O] | None:
        """The document; None if there is none. Errors of its parser."""
        return self.documents.read()

    def undelete(self) -> Stored[O] | None:
        """Undelete the document, and read it. None if it is not there: the account may have no soft delete."""
        undelete(self.documents.container, [self.documents.blob])
        return self.read()

    def write(self, document: O, before: Stored[O] | None) -> Stored[O] | None:
        """Replace the document that was read before, or create it, with a new write id. None if it was changed since.

        `ConfigurationError` if the document could not be read again; `TransientError` if it stays unknown whether it
        was written.
        """
        document = replace(document, write_id=self.new_id())
        self.check_readable(document)
        return self.documents.write(document, None if before is None else before.etag)

    def check_readable(self, document: O) -> None:
        """`ConfigurationError` if the document, as it would be stored, could not be read again."""
        readable(document, self.documents.blob, self.documents.to_json, self.documents.from_json)

    def check_epoch(self, found: O, epoch: int) -> None:
        """`FencedError` if the document has an epoch above this one."""
        if found.epoch > epoch:
            self._fence(found, epoch)

    def check_owner(self, found: O, own: O) -> None:
        """`FencedError` unless the document has the epoch and the writer of `own`."""
        if (found.epoch, found.writer) != (own.epoch, own.writer):
            self._fence(found, own.epoch)

    def open(
        self, own: Callable[[Stored[O] | None], O | None], find: Callable[[], Stored[O] | None]
    ) -> DocumentOwner[O]:
        """Own the document from now on.

        own: makes the document with this owner's epoch and writer of what is there; None to look again.
        find: reads the document, and undeletes it where that is right.
        `FencedError` if it has a higher epoch; `TransientError` if others change it all the time.
        """
        for _ in range(_ATTEMPTS):
            before = find()
            document = own(before)
            if document is None:
                continue
            if before is not None:
                self.check_epoch(before.document, document.epoch)
            stored = self.write(document, before)
            if stored is not None:
                return DocumentOwner(self, stored)
        raise self.too_many_changes()

    def amend(self, transition: Callable[[O | None], O]) -> None:
        """Change the document without owning it. `TransientError` if others change it all the time."""
        for _ in range(_ATTEMPTS):
            before = self.read()
            if self.write(transition(None if before is None else before.document), before) is not None:
                return
        raise self.too_many_changes()

    def too_many_changes(self) -> TransientError:
        """The error of a process that others do not let change the document."""
        cause = f"its {self.documents.kind} was changed by others {_ATTEMPTS} times in a row"
        return TransientError("write", self.subject, cause, "Try again later.")

    def _fence(self, found: O, epoch: int) -> NoReturn:
        other = f"another {self.owner} of " if found.epoch <= epoch else ""
        cause = f"{other}epoch {found.epoch} has taken it over from epoch {epoch}"
        step = f"Stop this {self.owner}: the other one goes on from what is stored."
        raise FencedError("write", self.subject, cause, step)


class DocumentOwner(Generic[O]):
    """The process that owns a document; `OwnedDocumentBlob.open` makes it. Not thread-safe."""

    def __init__(self, store: OwnedDocumentBlob[O], stored: Stored[O]) -> None:
        self._store, self._stored = store, stored
        self._unknown: list[O] = []

    @property
    def stored(self) -> Stored[O]:
        """The document as it was last read or written."""
        return self._stored

    @property
    def document(self) -> O:
        """The document as it was last read or written, without its ETag."""
        return self._stored.document

    @property
    def possible(self) -> tuple[O, ...]:
        """`document`, and those that may be stored instead: of writes that have failed since it was read."""
        return (self.document, *self._unknown)

    def replace(self, document: O) -> bool:
        """Replace the document as it was last read. False if it was changed since: `refresh`. Errors of `write`."""
        self._unknown.append(document)  # also if False: it was deleted, and a late write finds it undeleted
        try:
            stored = self._store.write(document, self._stored)
        except ConflictError:  # it was refused, and has no effect
            self._unknown.pop()
            raise
        if stored is not None:
            self._go_on_from(stored)
        return stored is not None

    def refresh(self) -> None:
        """Read the document. `FencedError` if another process owns it, `ConflictError` if it was deleted."""
        stored = self._store.read()
        if stored is None:
            cause = f"its {self._store.documents.kind} was deleted"
            step = f"Restore blob {self._store.documents.blob}, then start this {self._store.owner} again."
            raise ConflictError("write", self._store.subject, cause, step)
        self._store.check_owner(stored.document, self.document)
        self._go_on_from(stored)

    def change(self, transition: Callable[[O], O]) -> None:
        """Change the document. A transition that changes nothing writes nothing, but the owner is checked.

        transition: is called again for the document that another write, or a late one of this owner, has made.
        """
        for _ in range(_ATTEMPTS):
            before = self._stored
            changed = transition(before.document)
            if changed == before.document:
                self.refresh()
                if self._stored == before:
                    return
            elif self.replace(changed):
                return
            else:
                self.refresh()
        raise self._store.too_many_changes()

    def _go_on_from(self, stored: Stored[O]) -> None:
        """With another ETag than before, no write with that one as its condition can take effect any more."""
        if stored.etag != self._stored.etag:
            self._unknown.clear()
        self._stored = stored

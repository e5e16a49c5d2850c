"""Read and replace a document by conditional writes; a lost answer is resolved by the document's write id."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from azure_account.readback import request_and_read_back
from azure_account.values import IF_ABSENT, NO_ATTRIBUTES, BlobAttributes, Condition, Conflict, Done, Unknown
from foundation.errors import ConflictError, CorruptError, NotFoundError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.readback import Doubtful
    from foundation.errors import AzureBlobError


logger = logging.getLogger("azure_account")


class Document(Protocol):
    """What is stored. write_id: each write gives it another one."""

    @property
    def write_id(self) -> str:
        """The id of the write that made it."""


D = TypeVar("D", bound=Document)
T = TypeVar("T")
FETCHES = 3
"""How often bytes are fetched whose checksum is wrong."""


@dataclass(frozen=True)
class Stored(Generic[T]):
    """A document as it was read or written, and its ETag. age: seconds since it was written, when it was read."""

    document: T
    etag: str
    age: float = field(default=0.0, compare=False)


def fetch_document(container: BlobContainer, blob: str, from_json: Callable[[bytes, str], T]) -> Stored[T]:
    """Get a document and parse it. One that is damaged is fetched again: a bit may have been flipped on the way.

    `NotFoundError`, and errors of `from_json`: a `CorruptError` after `FETCHES` times.
    """
    for left in reversed(range(FETCHES)):
        found = container.get(blob)
        try:
            return Stored(from_json(found.data, blob), found.properties.etag, found.age)
        except CorruptError as error:
            if not left:
                raise
            logger.warning("%s is fetched again: %s", blob, error)
    raise AssertionError


@dataclass(frozen=True)
class DocumentBlob(Generic[D]):
    """One document of a container.

    kind: what messages call it. from_json: gets the bytes and the blob's name. attributes: of the blob.
    """

    container: BlobContainer
    blob: str
    kind: str
    to_json: Callable[[D], bytes]
    from_json: Callable[[bytes, str], D]
    attributes: BlobAttributes = NO_ATTRIBUTES

    def read(self) -> Stored[D] | None:
        """The document; None if there is none. Errors of `from_json`."""
        try:
            return fetch_document(self.container, self.blob, self.from_json)
        except NotFoundError:
            return None

    def write(self, document: D, before: str | None) -> Stored[D] | None:
        """Replace the document that was read with the ETag `before`, or create it (None).

        The write id must be one that no other write has. None if the document has changed: read it again.
        `TransientError` if the outcome stays unknown: then it may take effect as long as nothing else changes it.
        `ConflictError` if the document has not changed and yet is protected, such as by a lease.
        """
        condition, lost = IF_ABSENT if before is None else Condition(if_match=before), False

        def request() -> Done | Doubtful:
            return self.container.put(self.blob, self.to_json(document), self.attributes, condition=condition)

        def read_back(answer: Doubtful) -> Stored[D] | Conflict | None:
            nonlocal lost
            lost, stored = lost or isinstance(answer, Unknown), self.read()
            if stored is not None and stored.document.write_id == document.write_id:
                return stored
            unchanged = before == (None if stored is None else stored.etag)
            if unchanged and not lost and before is not None and isinstance(answer, Conflict):
                step = "Break the lease of the blob, if it has one: who has acquired it keeps it from being written."
                raise ConflictError("write", f"{self.kind} {self.blob}", answer.reason, step)
            return None if isinstance(answer, Unknown) and unchanged else Conflict()

        def unresolved(answer: Doubtful) -> AzureBlobError:
            cause = f"it stays unknown whether it was written ({answer})"
            return TransientError("write", f"{self.kind} {self.blob}", cause, "Try again later.")

        answer = request_and_read_back(request, read_back, unresolved)
        if isinstance(answer, Done):
            return Stored(document, answer.etag)
        return answer if isinstance(answer, Stored) else None

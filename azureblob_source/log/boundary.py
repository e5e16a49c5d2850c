"""The retention boundary of a stream's log: the first version that readers and writers take into account.

    <stream>/_log/_first.json
    {"formatVersion": 1, "first": 120, "writeId": "…", "removing": {"118": "0x8D…", …}, "transactionList": 64}

A vacuum moves it, forward only, *before* it deletes anything. Entries below it are ignored: those that are not deleted
yet, and those that a stale writer, which knows an old head, puts there later. Without the blob, `first` is 0.

`removing` are the ETags, by version, of the entries that are being deleted with their blobs. By these a vacuum that
goes on after one that died distinguishes such an entry from one that was put below the boundary afterwards. The blobs
of the latter are not to be deleted: another entry may commit them again.

`transactionList` is the entry that lists the transactions of the first version that counts: it is kept (decision 24).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from azure_account.documents.document import DocumentBlob
from azure_account.documents.form import check_version, damaged
from azure_account.values import JSON
from azureblob_source.log.naming import boundary_name
from foundation.errors import ConfigurationError, ConflictError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.container import BlobContainer

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Boundary:
    """`etag` is empty where no boundary was ever put."""

    first: int = 0
    removing: Mapping[int, str] = field(default_factory=dict)
    write_id: str = ""
    list_version: int = 0
    etag: str = ""


def to_json(boundary: Boundary) -> bytes:
    """The boundary as it is stored."""
    document = {
        "formatVersion": FORMAT_VERSION,
        "first": boundary.first,
        "writeId": boundary.write_id,
        "removing": {str(version): etag for version, etag in boundary.removing.items()},
        "transactionList": boundary.list_version,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def from_json(data: bytes, name: str) -> Boundary:
    """The boundary stored as blob `name`. Unknown fields are ignored; a newer format is a `ConfigurationError`."""
    try:
        document = json.loads(data)
        check_version(document["formatVersion"], FORMAT_VERSION, f"Log boundary {name}")
        removing = {int(version): str(of) for version, of in document["removing"].items()}
        return Boundary(int(document["first"]), removing, str(document["writeId"]), int(document["transactionList"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        step = "Restore it from a backup; do not delete it."
        raise damaged(f"Log boundary {name}", f"{error!r}", step) from error


def read_boundary(container: BlobContainer, stream: str) -> Boundary:
    """The retention boundary of a stream's log as of now: one request."""
    found = _document(container, stream).read()
    return Boundary() if found is None else replace(found.document, etag=found.etag)


def move_boundary(container: BlobContainer, stream: str, old: Boundary, new: Boundary) -> Boundary:
    """Put `new` (its `write_id` is fresh) in the place of `old`; returns it with its ETag.

    `ConflictError` if the boundary is no longer `old`.
    """
    if new.first < old.first:
        raise ValueError(f"a boundary moves forward only, not from {old.first} to {new.first}")
    found = _document(container, stream).write(new, old.etag or None)
    if found is None:
        cause, step = "another vacuum is at work on this log", "Run it again when that one has ended."
        raise ConflictError("vacuum", f"{stream} in {container.url}", cause, step)
    return replace(found.document, etag=found.etag)


def _document(container: BlobContainer, stream: str) -> DocumentBlob[Boundary]:
    return DocumentBlob(container, boundary_name(stream), "log boundary", to_json, from_json, JSON)

"""The retention boundary of a stream's log: the first version that readers and writers take into account.

    <stream>/_log/_first.json     {"formatVersion": 1, "first": 120, "writeId": "…", "removing": {"118": "0x8D…", …}}

A vacuum moves it, forward only, *before* it deletes anything. Entries below it are ignored: those that are not deleted
yet, and those that a stale writer, which knows an old head, puts there later. Without the blob, `first` is 0.

`removing` are the ETags, by version, of the entries that are being deleted with their blobs. By these a vacuum that
goes on after one that died distinguishes such an entry from one that was put below the boundary afterwards. The blobs
of the latter are not to be deleted: another entry may commit them again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from azure_account.account import IF_ABSENT, BlobAttributes, Condition, Done
from azure_account.errors import (
    ConfigurationError,
    ConflictError,
    CorruptError,
    NotFoundError,
    TransientError,
    describe,
)
from azure_account.readback import ATTEMPTS, request_and_read_back
from azureblob_source.log.naming import boundary_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.account import BlobContainer
    from azure_account.readback import Doubtful

FORMAT_VERSION = 1

_JSON = BlobAttributes(content_type="application/json")


@dataclass(frozen=True)
class Boundary:
    """`etag` is empty where no boundary was ever put."""

    first: int = 0
    removing: Mapping[int, str] = field(default_factory=dict)
    write_id: str = ""
    etag: str = ""


def to_json(boundary: Boundary) -> bytes:
    """The boundary as it is stored."""
    document = {
        "formatVersion": FORMAT_VERSION,
        "first": boundary.first,
        "writeId": boundary.write_id,
        "removing": {str(version): etag for version, etag in boundary.removing.items()},
    }
    return json.dumps({key: value for key, value in document.items() if value != {}}, separators=(",", ":")).encode()


def from_json(data: bytes, name: str, etag: str) -> Boundary:
    """The boundary stored as blob `name`. Unknown fields are ignored; a newer format is a `ConfigurationError`."""
    try:
        document = json.loads(data)
        written_as = int(document["formatVersion"])
        if written_as <= FORMAT_VERSION:
            removing = {int(version): str(of) for version, of in document.get("removing", {}).items()}
            return Boundary(int(document["first"]), removing, str(document.get("writeId", "")), etag)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"log boundary {name} is damaged ({error!r}). Restore it from a backup; do not delete it."
        raise CorruptError(message) from error
    message = (
        f"log boundary {name} has format version {written_as}, this release reads up to {FORMAT_VERSION}. "
        "Upgrade the package on this machine."
    )
    raise ConfigurationError(message)


def read_boundary(container: BlobContainer, stream: str) -> Boundary:
    """The retention boundary of a stream's log as of now: one request."""
    name = boundary_name(stream)
    try:
        content = container.get(name)
    except NotFoundError:
        return Boundary()
    return from_json(content.data, name, content.properties.etag)


def move_boundary(container: BlobContainer, stream: str, old: Boundary, new: Boundary) -> Boundary:
    """Put `new` (its `write_id` is fresh) in the place of `old`; returns it with its ETag.

    `ConflictError` if the boundary is no longer `old`. The write id shows whose put has won if an answer was lost.
    """
    if new.first < old.first:
        raise ValueError(f"a boundary moves forward only, not from {old.first} to {new.first}")
    name = boundary_name(stream)
    condition = Condition(if_match=old.etag) if old.etag else IF_ABSENT

    def read_back(_: Doubtful) -> Boundary | None:
        there = read_boundary(container, stream)
        if there.write_id == new.write_id:
            return there
        if there.etag != old.etag:
            cause, step = "another vacuum is at work on this log", "Run it again when that one has ended."
            raise ConflictError(describe("vacuum", f"{stream} in {container.url}", cause, step))
        return None

    def unresolved(_: Doubtful) -> TransientError:
        place, step = f"log boundary {name} in {container.url}", "Run the vacuum again: it goes on where it ended."
        return TransientError(describe("move", place, "no answer was received", step, attempts=ATTEMPTS))

    data = to_json(new)
    found = request_and_read_back(lambda: container.put(name, data, _JSON, condition=condition), read_back, unresolved)
    return replace(new, etag=found.etag) if isinstance(found, Done) else found

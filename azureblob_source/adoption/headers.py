"""Looks at a blob before it is adopted: its header has the schema, and its age says whether it is at rest.

GET of the first 16 KiB, on the listed ETag ─┬─► schema, and age by the service's clock
                                             ├─► more of it, if the header is longer, or if rows are counted
                                             └─► damaged, changed meanwhile, or modified just now
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arrow_avro import blocks, header_schema, is_gzip, read_header
from azureblob_source.adoption.discovery import LeftOut
from azureblob_source.read.blob_bytes import FIRST_REQUEST, BlobBytes, RangeReader, without_gzip
from azureblob_source.read.blobs import StreamBlob
from foundation.errors import ConflictError, CorruptError, NotFoundError

if TYPE_CHECKING:
    from arrow_avro import AvroSchema
    from azure_account.container import BlobContainer
    from azure_account.values import BlobContent
    from azureblob_source.adoption.discovery import FoundBlob


@dataclass(frozen=True)
class LookedAt:
    """A blob that can be adopted. rows: None if they were not counted."""

    blob: FoundBlob
    schema: AvroSchema
    rows: int | None


class _BegunBytes(BlobBytes):
    """A source of which the first bytes are there."""

    def __init__(self, ranges: RangeReader, blob: StreamBlob, begin: BlobContent) -> None:
        super().__init__(ranges, blob)
        self._keep(0, begin)


def look_at(container: BlobContainer, blob: FoundBlob, at_rest: float, *, count_rows: bool) -> LookedAt | LeftOut:
    """What a blob is, or why it is left out.

    at_rest: seconds after its last modification from which on it is taken to be whole. count_rows: read all of it.
    """
    try:
        begin = container.get(blob.name, 0, FIRST_REQUEST, if_match=blob.etag)
        if begin.age < at_rest:
            return LeftOut.BEING_WRITTEN
        named = StreamBlob(blob.name, blob.size, etag=blob.etag)
        source = without_gzip(_BegunBytes(RangeReader(container), named, begin))
        header = read_header(source, blob=blob.name)
        schema = header_schema(header.schema_json, blob=blob.name)
        if count_rows:
            counted = blocks(source, header, blob=blob.name)
            return LookedAt(blob, schema, sum(each.rows for each in counted))
        is_empty = header.size == blob.size and not is_gzip(begin.data[:2])
        return LookedAt(blob, schema, 0 if is_empty else None)
    except CorruptError:
        return LeftOut.DAMAGED
    except (ConflictError, NotFoundError):
        return LeftOut.CHANGED

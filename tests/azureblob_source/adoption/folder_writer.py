"""Folders as other programs write them: Avro blobs whose rows are numbers, under the names that these programs give."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fastavro

from azureblob_source.adoption.adopter import AdoptionSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.container import BlobContainer

FOLDER = "ns/hub"
SCHEMA: dict[str, Any] = {"type": "record", "name": "event", "fields": [{"name": "n", "type": "long"}]}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT_ONCE = AdoptionSettings(at_rest=0.0, threads=1)


def avro(numbers: Sequence[int], schema: dict[str, Any] | None = None, **others: Any) -> bytes:
    """A file with a row for each number."""
    out = io.BytesIO()
    rows = [{"n": number, **others} for number in numbers]
    fastavro.writer(out, fastavro.parse_schema(schema or SCHEMA), rows, sync_marker=b"0123456789abcdef")
    return out.getvalue()


def numbers_of(data: bytes) -> list[int]:
    """The numbers of a file's rows."""
    return [row["n"] for row in fastavro.reader(io.BytesIO(data))]


def capture_name(partition: int, moment: datetime, folder: str = FOLDER) -> str:
    """A name as Event Hubs Capture gives it."""
    return f"{folder}/{partition}/{moment:%Y/%m/%d/%H/%M/%S}.avro"


def fill(container: BlobContainer, partitions: int, minutes: int, first: datetime = NOON) -> int:
    """A blob of one row for each partition and minute; returns how many."""
    number = 0
    for minute in range(minutes):
        for partition in range(partitions):
            container.put(capture_name(partition, first + timedelta(minutes=minute)), avro([number]))
            number += 1
    return number

"""Container files of given bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro.files.container_file import block, header
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = '{"type":"record","name":"row","fields":[{"name":"é","type":"long"}]}'

Body = tuple[int, bytes]


def file_of(bodies: Sequence[Body], sync: bytes = SYNC) -> bytes:
    """A file with one block for each (rows, body). Its metadata holds the sync marker too, as a trap for searches."""
    framed = [buffer for rows, body in bodies for buffer in block(rows, body, sync)]
    return b"".join((header(SCHEMA, "null", sync, {"own sync": sync}), *framed))

"""The sync marker of the Avro files that tests write."""

from __future__ import annotations

from arrow_avro.files.container_file import SYNC_SIZE

SYNC = bytes(range(100, 100 + SYNC_SIZE))

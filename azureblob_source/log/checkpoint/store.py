"""Where checkpoints of a log are kept: found, read and put in the stream's container.

A checkpoint is never trusted further than it can be checked: what is missing, damaged or of another log counts as not
there, and the entries of the log say the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from azure_account.values import ALWAYS, IF_ABSENT, Conflict, Done, Unknown
from azureblob_source.iceberg.paths import root
from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.log.checkpoint.manifest import digest_of, manifest_bytes, manifest_table, without
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint, ManifestFile, list_bytes, read_list
from azureblob_source.log.hint import put_hint
from azureblob_source.log.naming import checkpoint_name, checkpoint_prefix, checkpoint_version, manifest_name
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from azure_account.container import BlobContainer
    from azureblob_source.log.checkpoint.table_columns import TableColumns
    from azureblob_source.log.checkpoint.tail import TailEffect

logger = logging.getLogger("azureblob_source")

_READERS = 64
_DECODERS = 2
"""Manifests that are decoded at once, as each takes some MiB then."""
_ALWAYS = ("name", "version", "moved_in")
"""Columns of all tables: by them blobs are left out."""
_SPANS = (2, 3, 4, 6, 20)
"""Numbers of last digits in which the versions of one listing differ: checkpoints near a version are found first."""


class LogCheckpointStore:
    """The checkpoints of one stream. One thread at a time writes them."""

    def __init__(self, container: BlobContainer, stream: str) -> None:
        self._container, self._stream = container, stream
        self.root: str = root(container.url)
        """What stands before the names of blobs in the paths that are written."""
        self.columns: TableColumns | None = None
        """What the manifests that are written say of the columns of their blobs."""
        self._last: tuple[str, pa.Table] | None = None
        """The manifest written last, which the next checkpoint is likely to need."""
        self._found: LogCheckpoint | None = None
        """The checkpoint found or put last."""

    def find(self, version: int) -> LogCheckpoint | None:
        """The checkpoint at a version. None if there is none, or it cannot be read."""
        if self._found is not None and self._found.version == version:
            return self._found
        name = checkpoint_name(self._stream, version)
        try:
            found = read_list(self._container.get(name).data, name, self._stream)
        except NotFoundError:
            return None
        except (CorruptError, ConfigurationError) as error:
            logger.warning("%s is ignored, the log is read instead: %s", name, error.failure)
            return None
        self._found = found if found.version == version else None
        return self._found

    def up_to(self, version: int) -> Iterator[int]:
        """The versions of checkpoints up to `version`, from the newest back."""
        seen: set[int] = set()
        for span in _SPANS:
            listed = self._container.list(checkpoint_prefix(self._stream, version, span))
            found = {number for blob in listed if (number := checkpoint_version(blob.name)) is not None}
            yield from sorted((each for each in found - seen if each <= version), reverse=True)
            seen |= found

    def table(
        self,
        manifests: Sequence[ManifestFile],
        columns: Sequence[str] | None,
        chosen: Callable[[pa.Table], pa.Table],
    ) -> pa.Table:
        """The `chosen` blobs of manifests, from these columns and `_ALWAYS`; None for all columns.

        `NotFoundError`, `CorruptError` or `ConfigurationError` if a manifest cannot be read.
        """
        wanted = [name for name in LIVE.names if columns is None or name in (*columns, *_ALWAYS)]
        stored = concurrent_map(self._get, manifests, _READERS, after_error="abandon")

        def decoded(at: int) -> pa.Table:
            found, stored[at] = self._decoded(manifests[at], stored[at], wanted), None
            return chosen(found)

        found = concurrent_map(decoded, range(len(manifests)), _DECODERS, after_error="abandon")
        return pa.concat_tables([chosen(LIVE.empty_table().select(wanted)), *found])

    def left_of(self, table: pa.Table, effect: TailEffect, kept_from: int) -> pa.Table:
        """The blobs of a table, from version `kept_from` on, that are not gone by the effect of a tail."""
        return without(table, versions=effect.versions, names=effect.names, kept_from=kept_from)

    def read(self, manifest: ManifestFile, columns: Sequence[str] = LIVE.names) -> pa.Table:
        """The live table of a manifest. Errors as of `table`."""
        return self._decoded(manifest, self._get(manifest), columns)

    def _get(self, manifest: ManifestFile) -> bytes | None:
        """The bytes of a manifest; None for the one that was written last, whose table is here."""
        if self._last is not None and self._last[0] == manifest.name:
            return None
        return self._container.get(manifest.name).data

    def _decoded(self, manifest: ManifestFile, data: bytes | None, columns: Sequence[str]) -> pa.Table:
        if data is None and self._last is not None:
            return self._last[1].select(columns)
        return manifest_table(data or b"", manifest.name, self._stream, columns)

    def write(self, table: pa.Table, version: int) -> ManifestFile:
        """Put a manifest of the checkpoint at `version`. Its name is that of its bytes, so to put it twice is safe."""
        fingerprints = table["schema"].unique().to_pylist()
        data = manifest_bytes(table, self.root, None if self.columns is None else self.columns.schema(fingerprints))
        name = manifest_name(self._stream, version, digest_of(data))
        outcome = self._container.put(name, data)
        if not isinstance(outcome, Done):
            step = "Look whether a lease or a policy holds it. The log has all that it says."
            raise ConflictError("put", f"{name} in {self._container.url}", str(outcome), step)
        self._last = name, table.combine_chunks()
        return ManifestFile.of(name, len(data), version, table)

    def put(self, checkpoint: LogCheckpoint, *, replaces: bool = False) -> None:
        """Put a checkpoint whose manifests are there, then the hint.

        Unless it `replaces` one, another writer's at that version stays: both say the same. One that cannot be read, or
        is of another log, does not.
        """
        data = list_bytes(checkpoint, self.root)
        name = checkpoint_name(self._stream, checkpoint.version)
        outcome = self._container.put(name, data, condition=ALWAYS if replaces else IF_ABSENT)
        if isinstance(outcome, Conflict):
            there = self.find(checkpoint.version)
            if there is None or there.write_id != checkpoint.write_id:
                outcome = self._container.put(name, data)
        if isinstance(outcome, Unknown):
            return  # the hint must not name what may not be there
        self._found = checkpoint
        put_hint(self._container, self._stream, checkpoint.version)

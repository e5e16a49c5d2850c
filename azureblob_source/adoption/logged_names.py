"""The names of all blobs that a log has adopted, as a sorted Arrow table: about 100 bytes for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.checkpoint.sorted_names import places_of
from azureblob_source.log.live_state import with_live_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azureblob_source.log.checkpoint.tail import TailEffect
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.live_state import LiveState

_COLUMNS = pa.schema([("name", pa.large_string()), ("etag", pa.large_string())])
_AT_ONCE = 50_000


class LoggedNames:
    """Names with their ETags."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table.take(pc.sort_indices(table["name"])).combine_chunks()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each name with its ETag, in order."""
        for batch in self._table.to_batches(_AT_ONCE):
            yield from zip(batch["name"].to_pylist(), batch["etag"].to_pylist(), strict=True)

    def etags(self, names: Sequence[str]) -> list[str | None]:
        """The ETags of these names, None for one that the log has not."""
        if not len(self) or not names:
            return [None] * len(names)
        at = places_of(names, self._table["name"])
        found: list[str | None] = self._table["etag"].take(pa.array(at, mask=at < 0)).to_pylist()
        return found


def logged_names(log: CommitLog, version: int) -> LoggedNames:
    """The names that the log has at a version: by its newest checkpoint, and the entries since."""

    def named(state: LiveState, effect: TailEffect) -> LoggedNames:
        table = state.base_table(("name", "etag"))
        rows = [(blob.name, blob.etag) for _, blob in effect.added]
        arrays = [pa.array([row[at] for row in rows], pa.large_string()) for at in (0, 1)]
        tables = [pa.Table.from_arrays(arrays, schema=_COLUMNS)]
        if table is not None:
            tables.append(table.select(_COLUMNS.names).cast(_COLUMNS))
        return LoggedNames(pa.concat_tables(tables))

    return with_live_state(log, version, named)

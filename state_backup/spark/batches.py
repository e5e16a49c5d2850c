"""Back up the checkpoint of a query within the commit of each batch.

When a sink commits batch n, the checkpoint has the offsets of n, and all that the batches before it have left, but not
that n is done. If that is backed up before n is committed, then a query that has lost its disk is at most one batch
behind its sink: it runs n again, with the same offsets, and a sink that remembers the batches that it has committed
knows it.

    Spark: offsets/n ─► tasks ─► sink: back up (offsets/n, commits/n-1, state n) ─► commit n ─► Spark: commits/n
"""

from __future__ import annotations

import json
from pathlib import Path

from azure_account.location import Location
from foundation.arguments import Epoch, Natural, checked
from foundation.errors import ConfigurationError, CorruptError
from state_backup.backup.settings import Kept, WriterSettings
from state_backup.spark.position import STORE, QueryPosition, local_path
from state_backup.spark.snapshot import query_id, snapshot_of
from state_backup.spark.writers import note_writer, open_for_query, resumed_writer

_INLINE_BYTES = 64 << 10
"""Files without a blob are in the snapshot index up to this size: a query without state has no others."""


@checked
def back_up_batch(
    where: Location, location: str | Path, batch: Natural, *, epoch: Epoch | None = None, keep: Kept | None = None
) -> QueryPosition:
    """Back up the checkpoint of a query that is about to commit a batch. Returns what a restore goes on from.

    where: the state that gets the backup.
    location: the query's `checkpointLocation`, on a disk of this machine.
    batch: the number of the batch.
    epoch, keep: as in `WriterSettings`.

    Three requests for a batch of a query without state. May be called by another process for each batch; call it again
    after an error. `FencedError` if another writer has the state; `ConfigurationError` if the directory is no
    checkpoint, the state has a backup of something else, or a part of the query's state is on another machine;
    `ConflictError` if the backup has later batches than the query.
    """
    location = local_path(location)
    query = query_id(location)
    if query is None:
        cause = "it is no checkpoint of a query that runs on this machine"
        step = "Give the query's checkpointLocation, on a disk of the driver."
        raise ConfigurationError("back up checkpoint", str(location), cause, step)
    check_state_is_here(location)
    settings = WriterSettings(epoch=epoch, keep=keep, ttl=False, inline_bytes=_INLINE_BYTES)
    writer = resumed_writer(where, location, settings) or open_for_query(where, location, query, settings, batch)
    position = QueryPosition(batch - 1, query)
    try:
        with snapshot_of(location, planned=batch) as (snapshot, _):
            writer.back_up({STORE: snapshot}, position.offsets, trust_times=True)
    except Exception:
        note_writer(location, writer)  # what it has uploaded is waste for the next one
        raise
    note_writer(location, writer)
    return position


def check_state_is_here(location: Path) -> None:
    """`ConfigurationError` if an operator has state whose partitions are not in the checkpoint on this machine.

    The driver writes an operator's metadata, the executors write the partitions of its state.
    """
    for operator in sorted(location.glob("state/*/_metadata/metadata")):
        root = operator.parent.parent
        missing = [number for number in range(_partitions(operator)) if not (root / str(number)).is_dir()]
        if missing:
            cause = f"partition {missing[0]} of the state of operator {root.name} is on another machine"
            step = (
                "On a cluster give a checkpointLocation that all machines share (abfss:// and the like, which needs no "
                "backup), or run the query on one machine (master local[*])."
            )
            raise ConfigurationError("back up checkpoint", str(location), cause, step)


def _partitions(metadata: Path) -> int:
    """How many partitions an operator has: of a file with a version, and a line of JSON."""
    try:
        fields = json.loads(metadata.read_text("utf-8").partition("\n")[2])
        return max((int(store["numPartitions"]) for store in fields["stateStoreInfo"]), default=0)
    except (ValueError, KeyError, TypeError) as error:
        step = "Restore the checkpoint (`restore_checkpoint`)."
        raise CorruptError("read", str(metadata), f"{error!r}", step) from error

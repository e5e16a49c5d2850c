"""What backups, restores and sweeps count and measure (`foundation.meters`).

Something is counted once, however often a request for it was repeated. Every value has the attribute `state`, its place
in the container; values of one store have `store` too. The names are those of Samza's metrics where it has them.
"""

from __future__ import annotations

from foundation.meters import Meters, Metrics, Table

COUNTERS: Table = {
    "filesUploaded": ("{file}", "files of a store that a backup has uploaded, whether it was committed or not"),
    "bytesUploaded": ("By", "bytes of these files"),
    "filesRetained": ("{file}", "files of a committed checkpoint that were there before, and were not uploaded"),
    "bytesRetained": ("By", "bytes of these files"),
    "checkpointsCommitted": ("{checkpoint}", "checkpoints that are committed"),
    "backupsFailed": ("{backup}", "backups that have raised an error"),
    "blobsDeleted": ("{blob}", "condemned blobs that are gone: by the clean-up of a backup, or by a sweep"),
    "filesRestored": ("{file}", "files that a restore has downloaded and verified"),
    "bytesRestored": ("By", "bytes of these files"),
    "filesKept": ("{file}", "files that a restore has found on disk and kept, and empty ones"),
    "bytesKept": ("By", "bytes of these files"),
    "blobsUndeleted": ("{blob}", "blobs that were gone and that a restore has undeleted"),
    "checkpointsPassedOver": (
        "{checkpoint}",
        "checkpoints that a restore has not used: not whole, or without a store",
    ),
}
GAUGES: Table = {"lastCheckpoint": ("s", "when the last checkpoint was committed, since 1970 UTC")}
HISTOGRAMS: Table = {
    "dirDiffSeconds": ("s", "reading a store's directory, and comparing it with the snapshot before"),
    "uploadSeconds": ("s", "uploading the new files of a store, and its index"),
    "cleanupSeconds": ("s", "taking TTLs off, and deleting what is condemned"),
    "getSnapshotIndexSeconds": ("s", "reading a store's snapshot index, and comparing it with the directory"),
    "restoreSeconds": ("s", "a restore of all its stores, from the record to the switch"),
}


METERS = Meters("state_backup", counter=COUNTERS, gauge=GAUGES, histogram=HISTOGRAMS)


class StateMetrics(Metrics):
    """The values of one state."""

    def __init__(self, state: str) -> None:
        super().__init__(METERS, {"state": state})

"""How fills run: which source they have, what they keep, when they rebuild a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from azure_account.location import Location
from foundation.arguments import Count, Epoch, Name, Wait, checked


@checked
@dataclass(frozen=True)
class FillSettings:
    """Settings of every fill. `ConfigurationError` for a value that is not possible.

    source: a name of where the rows come from; a store has one. By default `batch` for `fill`, `data sets` for
    `load_data_set`, and a name of the checkpoint folder for `fill_stream`.
    rebuild: build the store again from these rows only, also in place of another source's store. Readers keep what was
    there until the new one is published.
    keep: how many of the newest versions stay, so that new readers can choose them.
    cache_dir: a folder on a local disk where tasks write; by default a folder of the user in the temporary folder.
    epoch: of the task whose fill this is, from `coordination`. A fill of a lower epoch can then not take the store, as
    that of a driver that wakes after its task has moved (`FencedError`). By default the fill that is started last has
    the store.
    """

    source: Name | None = None
    rebuild: bool = False
    keep: Count = 3
    cache_dir: Path | str | None = None
    epoch: Epoch | None = None


@checked
@dataclass(frozen=True)
class StreamFillSettings(FillSettings):
    """Settings of `fill_stream`: those of every fill, and the following ones.

    bootstrap: read first what the source has now. The store is ready when all of that is published, also if the source
    is empty.
    output_mode: of the query, for streams that aggregate. `update`: each batch has the groups that have changed, and
    only `delete_when` deletes keys. `complete`: each batch replaces all that the store has.
    trigger: arguments of `DataStreamWriter.trigger`, for the time after the bootstrap; by default Spark's.
    persistent: False rebuilds the store at each start.
    max_age: seconds; rebuild the store at the start if its last version is older. By default it may have any age.
    on_truncated: what happens when the source has removed rows that the query has not read yet: `fail`, or `rebuild`
    from what the source has. Keys that the source no longer has are removed.
    query_name: of the query; by default it has none.
    checkpoint_backup: a folder for the backups of the checkpoints: each batch backs them up before it is published.
    `checkpoint` is then on a disk of the driver, and may be lost with it: what is missing is restored at the start. By
    default nothing is backed up.
    """

    bootstrap: bool = False
    output_mode: Literal["append", "update", "complete"] = "append"
    trigger: Mapping[str, Any] = field(default_factory=dict)
    persistent: bool = True
    max_age: Wait | None = None
    on_truncated: Literal["fail", "rebuild"] = "fail"
    query_name: Name | None = None
    checkpoint_backup: Location | None = None

"""Where a checkpoint of Spark is: its directory, the files beside it, its query and its last batch. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foundation.arguments import checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from state_backup.record.record import Checkpoint

STORE = "checkpoint"
"""The name of the store that a backed up checkpoint is, in its state."""
_BATCH, _QUERY = "spark.batch", "spark.query"
_BATCH_NUMBER = re.compile("-1|[0-9]+")


@dataclass(frozen=True)
class QueryPosition:
    """Where a checkpoint is: its query, and the last batch, -1 before the first. They are kept as offsets."""

    batch: int
    query: str

    @property
    def offsets(self) -> dict[str, str]:
        """The offsets as a checkpoint keeps them."""
        return {_BATCH: str(self.batch), _QUERY: self.query}

    @staticmethod
    def of(checkpoint: Checkpoint, state: str) -> QueryPosition:
        """`ConfigurationError` unless `back_up_checkpoint` has made it."""
        batch, query = checkpoint.offsets.get(_BATCH, ""), checkpoint.offsets.get(_QUERY, "")
        if STORE in checkpoint.indexes and query and _BATCH_NUMBER.fullmatch(batch):
            return QueryPosition(int(batch), query)
        cause = f"checkpoint {checkpoint.id} is no backup of back_up_checkpoint: it has no batch and query of Spark"
        step = (
            f"Give the state of the query; what this one has is restored by `restore`: {', '.join(checkpoint.indexes)}."
        )
        raise ConfigurationError("restore checkpoint", f"state {state}", cause, step)


@checked
def local_path(location: str | Path) -> Path:
    """The path of a `checkpointLocation`. `ConfigurationError` unless it is on a local disk."""
    text = str(location).removeprefix("file://")
    if "://" in text or not text:
        cause = "it is not on a local disk"
        step = "Checkpoints on abfss:// and the like need no backup: they survive the machine."
        raise ConfigurationError("back up checkpoint", str(location), cause, step)
    return Path(text.removeprefix("file:")).absolute()


def beside(location: Path, suffix: str) -> Path:
    """What is kept beside a checkpoint, such as `flights.writer.json` for `flights`."""
    return location.with_name(f"{location.name}.{suffix}")

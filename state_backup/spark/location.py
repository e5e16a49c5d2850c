"""Where a checkpoint is: a directory of this machine, and files beside it."""

from __future__ import annotations

from pathlib import Path

from foundation.arguments import checked
from foundation.errors import ConfigurationError


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

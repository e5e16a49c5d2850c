"""Where the streams, stores and checkpoints of the pipeline are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account import Location
from control_messages.producer import ProducerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AIRPORTS = ["EWR", "JFK", "LGA"]
PARTITIONS = 2
TASKS = ["planes", "weather", "flights", "joined", "days"]
STREAMS = TASKS[1:]
"""The tasks that write a stream, which has the task's name. `planes` fills a store."""
PRODUCERS = {
    "weather": ProducerSpec("weather", PARTITIONS, tasks=AIRPORTS),
    "flights": ProducerSpec("flights", PARTITIONS, tasks=AIRPORTS),
    "joined": ProducerSpec("joined", PARTITIONS, tasks=PARTITIONS),
}


@dataclass(frozen=True)
class Places:
    """arrivals: the folder where input arrives. disk: one that only this driver has.

    account: options of the format `azureblob`.
    """

    container: str
    account: Mapping[str, str] = field(repr=False)
    arrivals: Path
    disk: Path

    @property
    def job(self) -> Location:
        """The job of `coordination`."""
        return self._in("pipeline")

    @property
    def planes(self) -> Location:
        """The adjunct store."""
        return self._in("stores/planes")

    @property
    def all_have_arrived(self) -> Path:
        """A file that is there when no more flights will arrive."""
        return self.arrivals / "complete"

    def stream(self, name: str) -> Location:
        """The stream of a task."""
        return self._in(f"streams/{name}")

    def backup(self, task: str) -> Location:
        """The backup of a task's checkpoint."""
        return self._in(f"checkpoints/{task}")

    def checkpoint(self, task: str) -> str:
        """The checkpoint of a task."""
        return str(self.disk / "checkpoints" / task)

    def _in(self, path: str) -> Location:
        return Location(f"{self.container}/{path}", self.account)

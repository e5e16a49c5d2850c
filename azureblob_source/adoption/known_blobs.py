"""What a discovery knows of the log between two listings: of each partition the newest names, not all. Pure.

partition ns/hub/0/        …/17/49   …/17/50 .. …/18/05      all names from the floor on are known, with ETags
floor ┘                 └ newest
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from azureblob_source.log.name_places import NamePlace, name_place, name_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LATE = timedelta(minutes=15)
"""How late a blob may come, by the time in its name, for the next discovery to find it; else a whole listing does."""
MOST_NAMES = 50_000
"""Names of all partitions that are kept. Above it, only those of the last `LATE`."""
_MOST_OF_DIRECTORY = 5000


@dataclass(slots=True)
class Partition:
    """The blobs of one partition that the log has, by name: all from the name `floor` on."""

    newest: NamePlace
    floor: str = ""
    etags: dict[str, str] = field(default_factory=dict)

    @property
    def since(self) -> str:
        """The name from which on blobs that are new are expected."""
        if self.newest.moment is None:
            return self.newest.name if len(self.etags) > _MOST_OF_DIRECTORY else self.newest.prefix
        return self.newest.since(LATE)

    def shorten(self) -> None:
        """Forget the names before `since`."""
        self.floor = max(self.floor, self.since)
        self.etags = {name: etag for name, etag in self.etags.items() if name >= self.floor}


@dataclass
class KnownBlobs:
    """The blobs that the log has, by prefix of their partitions; the partition that has got one last is the last."""

    partitions: dict[str, Partition] = field(default_factory=dict)
    names: int = 0
    """How many names are kept."""
    is_whole: bool = True
    """Whether they are all that the log has."""
    most: int = MOST_NAMES
    """How many are kept, but for those of the last `LATE`."""
    _shortest: int = 0

    @classmethod
    def of(cls, blobs: Callable[[], Iterable[tuple[str, str]]], count: int, most: int = MOST_NAMES) -> KnownBlobs:
        """The blobs of a log, `count` of them, each with its ETag. blobs: called twice if they are many."""
        known = cls(most=most)
        if count > most:
            for name, _ in blobs():
                known._partition(name)
            for partition in known.partitions.values():
                partition.shorten()
            known.is_whole = False
        known.add(blobs())
        return known

    def add(self, blobs: Iterable[tuple[str, str]]) -> None:
        """Add blobs of new entries, each with its ETag."""
        for name, etag in blobs:
            partition = self._partition(name)
            if name >= partition.floor:
                self.names += name not in partition.etags
                partition.etags[name] = etag
        if self.names > max(self.most, 2 * self._shortest):
            for partition in self.partitions.values():
                partition.shorten()
            self.names = self._shortest = sum(len(each.etags) for each in self.partitions.values())
            self.is_whole = False

    def _partition(self, name: str) -> Partition:
        """The partition of a name, with the name as the newest if it is."""
        prefix = name_prefix(name)
        partition = self.partitions.pop(prefix, None)
        if partition is None:
            partition = Partition(name_place(name))
        elif name > partition.newest.name:
            partition.newest = name_place(name)
        self.partitions[prefix] = partition
        return partition

    def etag(self, name: str) -> str | None:
        """The ETag with which the log has a blob, None if it has not. `KeyError` if the name is before the floor."""
        partition = self.partitions.get(name_prefix(name))
        if partition is None:
            return None
        found = partition.etags.get(name)
        if found is None and name < partition.floor:
            raise KeyError(name)
        return found

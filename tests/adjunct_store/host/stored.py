"""A store in the in-memory account whose versions share most files, as those of a RocksDB do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adjunct_store.host.cache import HostCache
from adjunct_store.host.cleaning import CacheCleanupResult, clean_cache
from adjunct_store.host.folders import VERIFIED
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from azure_account.retrying.retry_loop import Intercept
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from tests.state_backup.index.trees import Tree
from tests.state_backup.states import write

STORE = "stores/planes"
FILES = 6


def state(generation: int, partition: int) -> str:
    return f"{STORE}/g{generation}/p{partition}"


def tree(generation: int, partition: int, version: int) -> Tree:
    """Each version has one new table, and no more the oldest one."""
    tables = {f"{number:06}.sst": b"%d" % number * 100 for number in range(version, version + FILES - 1)}
    return {**tables, "CURRENT": b"%d %d %d" % (generation, partition, version)}


def is_whole(directory: Path, generation: int, partition: int, version: int) -> bool:
    expected = tree(generation, partition, version)
    return expected == {path.name: path.read_bytes() for path in directory.iterdir()}


@dataclass
class Stored:
    """An account with a store. ids: the checkpoints by generation and partition, by version."""

    folder: Path
    account: MemoryAccount = field(default_factory=MemoryAccount)
    ids: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.account.container("box").create()

    def add(self, generation: int, partition: int, versions: int) -> list[str]:
        """Back up versions of a partition."""
        name = state(generation, partition)
        writer = open_state(
            Location.in_container(self.account.container("box"), name),
            TaskIdentity("planes"),
            WriterSettings(keep=100, threads=1),
        )
        ids = self.ids.setdefault((generation, partition), [])
        for version in range(len(ids), len(ids) + versions):
            live = write(self.folder / "live", tree(generation, partition, version))
            ids.append(str(writer.back_up({"store": live}).id))
        return ids

    def blobs(self) -> dict[str, bytes]:
        """All that is stored, for another process."""
        container = self.account.container("box")
        return {blob.name: container.get(blob.name).data for blob in container.list()}

    def cache(self, faults: Intercept | None = None, **settings: object) -> HostCache:
        """A cache of the host, in the folder `cache`."""
        return opened(self.account.restarted(faults), self.folder / "cache", **settings)

    def clean(self) -> CacheCleanupResult:
        """Delete what nobody has open."""
        return clean_cache(self.folder / "cache")

    def paths(self) -> set[str]:
        """What the host has of the store, without tables and notes."""
        folders = list((self.folder / "cache").iterdir())
        return {
            str(path.relative_to(folder))
            for folder in folders
            for path in folder.rglob("*")
            if path.suffix != ".sst" and path.name != VERIFIED
        }


def account_of(blobs: Mapping[str, bytes], intercept: Intercept | None = None) -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    for name, data in blobs.items():
        account.container("box").put(name, data)
    return account.restarted(intercept)


def opened(account: MemoryAccount, cache_dir: Path, **settings: object) -> HostCache:
    return HostCache(account.container("box"), STORE, cache_dir, threads=1, **settings)  # type: ignore[arg-type]


def downloads(faults: FaultInjector) -> int:
    """How many files were downloaded. Each is one range."""
    return sum(each.operation == "get" and "/files/" in each.name for each in faults.attempts)

"""The steps of each tool, and of the replays: on empty emulators, behind a proxy where bytes are counted."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from benchmarks import backup_tools
from benchmarks.counting_proxy import counting_proxy
from tools.azurite import local_azurite, running_azurite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.counting_proxy import CountingProxy
    from tools.azurite import Azurite

FIRST, SECOND = "first backup", "backup, 1 % of keys changed"
NEWER, EMPTY = "restore over older checkpoint", "restore to an empty disk"


@dataclass(frozen=True)
class Figures:
    """Of one process. seconds: of the act. on_disk: until its files are synced. processor: seconds. peak: MiB.

    Bytes are those of HTTP, with headers. requests: 0 without a proxy.
    """

    seconds: float
    on_disk: float
    processor: float
    peak: float
    sent: int
    received: int
    requests: int = 0


@dataclass(frozen=True)
class Stores:
    """The directories of a run."""

    folder: Path

    @property
    def old(self) -> Path:
        """The store of the first backup."""
        return self.folder / "old"

    @property
    def new(self) -> Path:
        """The store of the second backup: 1 % of the keys have changed."""
        return self.folder / "new"

    @property
    def changelog(self) -> Path:
        """What is replayed."""
        return self.folder / "changelog"


@dataclass(frozen=True)
class Storage:
    """An emulator, which its clients reach through the proxy, if there is one."""

    azurite: Azurite
    proxy: CountingProxy | None

    def act(self, name: str, directory: Path) -> Figures:
        """Run an act of `backup_tools` in a process of its own."""
        environment = {
            **os.environ,
            backup_tools.CONNECTION: self.azurite.connection_string,
            backup_tools.RCLONE_URL: f"{self.azurite.endpoint}?{_sas(self.azurite)}",
        }
        command = [sys.executable, "-m", "benchmarks.backup_tools", name, str(directory)]
        self._moved()
        answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        sent, received = self._moved()
        requests = 0 if self.proxy is None else self.proxy.take_requests()
        return Figures(**json.loads(answer.stdout), sent=sent, received=received, requests=requests)

    def _moved(self) -> tuple[int, int]:
        """Bytes since the last call; zeros without a proxy."""
        return (0, 0) if self.proxy is None else self.proxy.take()


def steps(stores: Stores, push: str, pull: str, *, incremental: bool) -> dict[str, Figures]:
    """All steps of a tool. One that always copies everything has no steps of their own for what has changed."""
    with emulator() as storage:
        taken = {FIRST: storage.act(push, stores.old)}
        if incremental:
            taken[SECOND] = storage.act(push, stores.new)
            with deleted_after(stores.folder / "older") as target:
                shutil.copytree(stores.old, target)
                taken[NEWER] = storage.act(pull, target)
                check_equal(stores.new, target)
        with deleted_after(stores.folder / "empty") as target:
            taken[EMPTY] = storage.act(pull, target)
            check_equal(stores.new if incremental else stores.old, target)
    return taken


def restores(stores: Stores, times: int) -> list[Figures]:
    """The store restored to an empty disk, without a proxy, which would take a part of the processors from it."""
    with emulator(counted=False) as storage:
        storage.act("back_up", stores.old)
        taken = []
        for _ in range(times):
            with deleted_after(stores.folder / "empty") as target:
                taken.append(storage.act("restore", target))
                check_equal(stores.old, target)
        return taken


def replays(stores: Stores) -> tuple[Figures, Figures]:
    """The changelog replayed by single puts, and by write batches; without a proxy, too."""
    with emulator(counted=False) as storage:
        with (
            BlobServiceClient.from_connection_string(storage.azurite.connection_string) as client,
            stores.changelog.open("rb") as source,
        ):
            container = client.get_container_client(backup_tools.CONTAINER)
            container.upload_blob(backup_tools.CHANGELOG, source, max_concurrency=backup_tools.THREADS)
        with deleted_after(stores.folder / "singly") as target:
            singly = storage.act("replay_singly", target)
        with deleted_after(stores.folder / "in-batches") as target:
            return singly, storage.act("replay_in_batches", target)


@contextmanager
def emulator(*, counted: bool = True, delay: float = 0.0) -> Iterator[Storage]:
    """An empty one, by default behind a proxy. delay: seconds that each request waits there."""
    with running_azurite() as azurite:
        with BlobServiceClient.from_connection_string(azurite.connection_string) as client:
            client.create_container(backup_tools.CONTAINER)
        if not counted:
            yield Storage(azurite, None)
            return
        with counting_proxy(azurite.blob_port, delay) as proxy:
            yield Storage(local_azurite(proxy.port, azurite.blob_port), proxy)


@contextmanager
def deleted_after(directory: Path) -> Iterator[Path]:
    """Delete a directory at the end of the block."""
    yield directory
    shutil.rmtree(directory)


def check_equal(expected: Path, actual: Path) -> None:
    """`AssertionError` unless the two directories have the same files."""
    names = sorted(file.name for file in expected.iterdir())
    _, different, unreadable = filecmp.cmpfiles(expected, actual, names, shallow=False)
    if different or unreadable or names != sorted(file.name for file in actual.iterdir()):
        raise AssertionError(f"{actual} is not what was backed up from {expected}: {different or unreadable or names}")


def _sas(azurite: Azurite) -> str:
    """A signature: rclone takes any URL that has one, but an account key only for URLs of Azure."""
    return generate_account_sas(
        azurite.account_name,
        azurite.account_key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
        datetime.now(UTC) + timedelta(days=1),
    )

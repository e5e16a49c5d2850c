"""The measured processes: one act of one tool, in a process of its own that does not open RocksDB (but to replay)."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peak import peak
from benchmarks.rounds import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.storage.blob import ContainerClient

    from azure_account import BlobContainer
    from state_backup import StateWriter

CONNECTION = "BENCHMARK_CONNECTION_STRING"
RCLONE_URL = "RCLONE_AZUREBLOB_SAS_URL"
CONTAINER, STATE, STORE, CHANGELOG = "backup", "flights/task-0", "store", "changelog"
THREADS = 16
_FILES_AT_ONCE = 4


def back_up(directory: Path) -> float:
    """`state_backup`: open the state and back the directory up."""
    from state_backup import Location, TaskIdentity, WriterSettings, open_state  # noqa: PLC0415 - each process its own tool

    state = Location.in_container(_own_container(), STATE)

    def act() -> None:
        writer: StateWriter = open_state(state, TaskIdentity("flights"), WriterSettings(threads=THREADS))
        writer.back_up({STORE: directory})

    return seconds(act)


def restore(directory: Path) -> float:
    """`state_backup`: restore the newest checkpoint over what is there."""
    from state_backup import Location, RestoreSettings, restore  # noqa: PLC0415

    state = Location.in_container(_own_container(), STATE)
    return seconds(lambda: restore(state, {STORE: directory}, settings=RestoreSettings(threads=THREADS)))


def sdk_upload(directory: Path) -> float:
    """azure-storage-blob: upload every file."""
    container = _sdk_container()

    def upload(file: Path) -> None:
        with file.open("rb") as source:
            container.upload_blob(f"{STORE}/{file.name}", source, overwrite=True, max_concurrency=THREADS)

    return seconds(lambda: _each(upload, list(directory.iterdir())))


def sdk_download(directory: Path) -> float:
    """azure-storage-blob: download every file."""
    container = _sdk_container()

    def download(name: str) -> None:
        with (directory / name.rpartition("/")[2]).open("wb") as target:
            container.download_blob(name, max_concurrency=THREADS).readinto(target)

    def act() -> None:
        directory.mkdir()
        _each(download, list(container.list_blob_names(name_starts_with=f"{STORE}/")))

    return seconds(act)


def adlfs_put(directory: Path) -> float:
    """Upload the directory with adlfs."""
    from adlfs import AzureBlobFileSystem  # noqa: PLC0415

    files = AzureBlobFileSystem(connection_string=os.environ[CONNECTION])
    return seconds(lambda: files.put(f"{directory}/", f"{CONTAINER}/{STORE}/", recursive=True))


def adlfs_get(directory: Path) -> float:
    """Download the directory with adlfs."""
    from adlfs import AzureBlobFileSystem  # noqa: PLC0415

    files = AzureBlobFileSystem(connection_string=os.environ[CONNECTION])
    return seconds(lambda: files.get(f"{CONTAINER}/{STORE}/", f"{directory}/", recursive=True))


def rclone_push(directory: Path) -> float:
    """Make the container what the directory is."""
    return _rclone(str(directory), f":azureblob:{CONTAINER}/{STORE}")


def rclone_pull(directory: Path) -> float:
    """Make the directory what the container is."""
    return _rclone(f":azureblob:{CONTAINER}/{STORE}", str(directory))


def restic_push(directory: Path) -> float:
    """A snapshot of the directory in restic's repository, which rclone stores."""
    return _restic("backup", str(directory))


def restic_pull(directory: Path) -> float:
    """The newest snapshot, into the directory: below it are the folders of the path that was backed up."""
    return _restic("restore", "latest", "--target", str(directory))


def restic_init(_: Path) -> float:
    """Make the repository."""
    return _restic("init")


def replay_singly(directory: Path) -> float:
    """Read the changelog and put its records into a new store, one by one."""
    from benchmarks.backup_store import put_singly, records_in  # noqa: PLC0415

    changelog = _sdk_container().get_blob_client(CHANGELOG)
    return seconds(lambda: put_singly(directory, records_in(changelog.download_blob().chunks())))


def replay_in_batches(directory: Path) -> float:
    """Read the changelog and put its records into a new store, by write batches."""
    from benchmarks.backup_store import put_in_batches, records_in  # noqa: PLC0415

    changelog = _sdk_container().get_blob_client(CHANGELOG)
    return seconds(lambda: put_in_batches(directory, records_in(changelog.download_blob().chunks())))


ACTS: dict[str, Callable[[Path], float]] = {
    act.__name__: act
    for act in (
        back_up, restore, sdk_upload, sdk_download, adlfs_put, adlfs_get, rclone_push, rclone_pull,
        restic_init, restic_push, restic_pull,
        replay_singly, replay_in_batches,
    )
}  # fmt: skip


def _own_container() -> BlobContainer:
    """As of the other tools, imports are no part of the time, nor is the first connection."""
    from state_backup import open_account  # noqa: PLC0415

    container = open_account({"connectionString": os.environ[CONNECTION]}).container(CONTAINER)
    container.exists()
    return container


def _sdk_container() -> ContainerClient:
    from azure.storage.blob import ContainerClient  # noqa: PLC0415

    return ContainerClient.from_connection_string(os.environ[CONNECTION], CONTAINER)


def _each(act: Callable[..., None], items: list[Path] | list[str]) -> None:
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        list(pool.map(act, items))


def _rclone(source: str, target: str) -> float:
    command = ["rclone", "--config", "", "sync", source, target]
    return seconds(lambda: subprocess.run(command, check=True))


def _restic(*arguments: str) -> float:
    command = ["restic", "-r", f"rclone::azureblob:{CONTAINER}/restic", "--no-cache", "--quiet", *arguments]
    environment = {**os.environ, "RESTIC_PASSWORD": "benchmark", "RCLONE_CONFIG": ""}
    return seconds(lambda: subprocess.run(command, env=environment, check=True))


def _on_disk(directory: Path) -> None:
    """Wait until the files are on the disk."""
    for file in directory.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def main(act: str, directory: str) -> None:
    """Run one act, then print its figures as JSON: all times in seconds, memory in MiB."""
    before = _processor_seconds()
    taken = ACTS[act](Path(directory))
    used = _processor_seconds() - before
    most = max(peak(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    synced = seconds(lambda: _on_disk(Path(directory)))
    print(json.dumps({"seconds": taken, "on_disk": taken + synced, "processor": used, "peak": most}))


def _processor_seconds() -> float:
    """Those of this process, and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Restore stores: take what is on disk already, download the rest, verify, switch.

No lock is taken. If a blob is gone, newer checkpoints have dropped this one: the record is read again, and the newest
checkpoint is planned anew. What has been downloaded is found by its content.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from azure_account.errors import (
    AzureBlobError,
    ConfigurationError,
    ConflictError,
    CorruptError,
    NotFoundError,
    describe,
)
from state_backup.index.snapshot_index import from_json
from state_backup.local import place
from state_backup.local.scan import scan
from state_backup.metrics import StateMetrics
from state_backup.names import StateNames
from state_backup.record_store import RecordStore
from state_backup.transfer.download import Downloader
from state_backup.undelete import undelete, undelete_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure_account.account import BlobContainer
    from state_backup.index.dir_diff import Content, LocalFile
    from state_backup.index.snapshot_index import FileIndex, SnapshotIndex
    from state_backup.record import Checkpoint

logger = logging.getLogger(__name__)

_ATTEMPTS = 5


@dataclass(frozen=True)
class Restored:
    """What was restored: the checkpoint, files and bytes that were downloaded, and those that were there (or empty).

    undeleted: blobs that were gone and that soft delete has given back. passed_over: newer checkpoints that are not
    whole, newest first, with the reason.
    """

    checkpoint: Checkpoint
    downloaded_files: int
    downloaded_bytes: int
    kept_files: int
    kept_bytes: int
    undeleted: tuple[str, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)


def checkpoints(container: BlobContainer, state: str) -> tuple[Checkpoint, ...]:
    """The checkpoints that can be restored, newest first; none if there is no record."""
    stored = RecordStore(container, StateNames(state), lambda: uuid.uuid4().hex).read()
    return () if stored is None else stored.record.checkpoints


def restore(  # noqa: PLR0913 - what is restored, where to, and what is reported
    container: BlobContainer,
    state: str,
    stores: Mapping[str, Path | str],
    *,
    checkpoint_id: str | None = None,
    threads: int = 16,
    planned: Callable[[int, int], object] = lambda _files, _bytes: None,
    progress: Callable[[int], object] = lambda _: None,
) -> Restored:
    """Make these directories, by store name, what the stores were at a checkpoint: the given one, or the newest whole.

    Files that are there with the same content are kept, whatever they are called: by hard links, or as copies if their
    permissions change. When all is there and verified, each directory is replaced at once; until then they stay as they
    are. Nothing may write to them meanwhile. A symbolic link stays, and the directory that it leads to is replaced.

    What was deleted and is needed, the record too, is undeleted if the account has soft delete. If blobs of
    the newest checkpoint stay lost, an older one is restored, with a warning that names them; of a checkpoint that was
    asked for, that is an error. `NotFoundError` if no checkpoint has these stores. planned: is called with the number
    and bytes of the files to download; progress with the bytes of each piece.
    """
    directories = _resolved(stores)
    of_state = StateMetrics(state)
    transfer = _Transfer(of_state, threads, planned, progress)
    try:
        with of_state.measured("restoreSeconds"):
            restored = _Attempts(container, state, directories, checkpoint_id, transfer).run()
    except OSError as error:
        step = "Give a path where directories can be renamed, below a mount point and not itself one; run it again."
        raise ConfigurationError(describe("restore", f"state {state}", str(error), step)) from error
    for name, number in (
        ("filesRestored", restored.downloaded_files),
        ("bytesRestored", restored.downloaded_bytes),
        ("filesKept", restored.kept_files),
        ("bytesKept", restored.kept_bytes),
    ):
        of_state.count(name, number)
    return restored


@dataclass(frozen=True)
class _Transfer:
    """How files are downloaded, and whom that is reported to."""

    metrics: StateMetrics
    threads: int
    planned: Callable[[int, int], object]
    progress: Callable[[int], object]


@dataclass
class _Attempts:
    """Attempts to restore a state, until a whole checkpoint is found."""

    container: BlobContainer
    state: str
    stores: Mapping[str, Path]
    checkpoint_id: str | None
    transfer: _Transfer
    undeleted: list[str] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    tried_again: list[Checkpoint] = field(default_factory=list)

    def run(self) -> Restored:
        """Each checkpoint is undeleted once, and passed over once; only those that were dropped are counted."""
        for directory in self.stores.values():
            place.recover(directory)
        overtaken = 0
        while overtaken < _ATTEMPTS:
            chosen = self._choose()
            try:
                restored = _restore(self.container, chosen, self.stores, self.transfer)
            except (NotFoundError, CorruptError) as error:
                if chosen not in checkpoints(self.container, self.state):
                    overtaken += 1  # it was dropped meanwhile: a newer one is there
                elif not self._undelete(chosen, error):
                    self._pass_over(chosen, error)
            else:
                return replace(restored, undeleted=tuple(self.undeleted), passed_over=self.passed_over)
        cause = "its checkpoints were dropped by newer ones faster than they could be read"
        raise ConflictError(describe("restore", f"state {self.state}", cause, "Keep more checkpoints (`keep`)."))

    def _choose(self) -> Checkpoint:
        found = checkpoints(self.container, self.state) or self._of_deleted_record()
        fitting = [
            each
            for each in found
            if set(self.stores) <= set(each.indexes)
            and str(each.id) not in self.passed_over
            and self.checkpoint_id in {None, str(each.id)}
        ]
        if fitting:
            return fitting[0]
        have = "; ".join(f"{each.id} with {', '.join(sorted(each.indexes))}" for each in found) or "none"
        wanted = f"checkpoint {self.checkpoint_id or ''}".rstrip()
        whole = "whole " if self.passed_over else ""
        cause = f"there is no {whole}{wanted} with {', '.join(sorted(self.stores))}; there are: {have}"
        lost = "".join(f"; {id_} is not whole ({why})" for id_, why in self.passed_over.items())
        step = "`verify` lists what is lost." if lost else "Choose one of these." if found else "Check the name."
        raise NotFoundError(describe("restore", f"state {self.state}", cause + lost, step))

    def _of_deleted_record(self) -> tuple[Checkpoint, ...]:
        """The checkpoints of a record that was deleted and can be undeleted."""
        self._note(undelete(self.container, [StateNames(self.state).record]))
        return checkpoints(self.container, self.state)

    def _undelete(self, chosen: Checkpoint, error: AzureBlobError) -> bool:
        """Whether blobs of it are back, so that it can be tried again."""
        if chosen in self.tried_again or not isinstance(error, NotFoundError):
            return False
        self.tried_again.append(chosen)
        back = undelete_lost(self.container, StateNames(self.state), chosen, self.stores, self.transfer.threads)
        self._note(back)
        return bool(back)

    def _note(self, undeleted: tuple[str, ...]) -> None:
        self.undeleted += undeleted
        self.transfer.metrics.count("blobsUndeleted", len(undeleted))

    def _pass_over(self, chosen: Checkpoint, error: AzureBlobError) -> None:
        if self.checkpoint_id is not None:
            raise error
        logger.warning("checkpoint %s of %s is not whole, an older one is tried: %s", chosen.id, self.state, error)
        self.passed_over[str(chosen.id)] = str(error)
        self.transfer.metrics.count("checkpointsPassedOver")


def _resolved(stores: Mapping[str, Path | str]) -> dict[str, Path]:
    """The directories without symbolic links. `ConfigurationError` if one is a file, or is, or lies in, another one."""
    found = {store: _directory(Path(path)) for store, path in stores.items()}
    _check_apart(found)
    return found


def _directory(path: Path) -> Path:
    try:
        resolved = path.resolve()
        file = resolved.exists() and not resolved.is_dir()
    except (OSError, RuntimeError) as error:  # Python 3.10 reports a circle of links so
        raise ConfigurationError(describe("restore", str(path), str(error), "Check the path.")) from error
    if file:
        raise ConfigurationError(describe("restore", str(path), "it is no directory", "Remove it, or check the path."))
    return resolved


def _check_apart(stores: Mapping[str, Path]) -> None:
    """`ConfigurationError` if one directory is, or lies in, another one."""
    paths = sorted(directory.absolute() for directory in stores.values())
    for outer, inner in pairwise(paths):
        if inner.is_relative_to(outer):
            cause = f"{inner} and {outer} are not apart"
            raise ConfigurationError(describe("restore", "stores", cause, "Give each store a directory of its own."))


def _restore(
    container: BlobContainer, checkpoint: Checkpoint, stores: Mapping[str, Path], transfer: _Transfer
) -> Restored:
    plans = []
    for store, directory in stores.items():
        with transfer.metrics.measured("getSnapshotIndexSeconds", store=store):
            plans.append(_plan(container, checkpoint.indexes[store], directory, transfer.threads))
    sizes = [file.metadata.size for plan in plans for _, file in plan.index.root.files()]
    downloaded = [file.metadata.size for plan in plans for file in plan.missing.values() if file.metadata.size]
    transfer.planned(len(downloaded), sum(downloaded))
    try:
        for plan in plans:
            place.make_dirs(place.restoring(plan.directory), plan.index.root)
            _keep(plan)
        with Downloader(container, threads=transfer.threads) as downloader:
            files = {path: file for plan in plans for path, file in plan.missing.items()}
            downloader.files(files, transfer.progress)
        for plan in plans:
            place.apply_permissions(place.restoring(plan.directory), plan.index.root)
        for plan in plans:
            place.switch(plan.directory)
    except BaseException:
        for plan in plans:
            place.recover(plan.directory)
        raise
    kept_files, kept_bytes = len(sizes) - len(downloaded), sum(sizes) - sum(downloaded)
    return Restored(checkpoint, len(downloaded), sum(downloaded), kept_files, kept_bytes)


@dataclass(frozen=True)
class _Plan:
    """What is done for one directory. links, copies: files that are there, by new path. missing: to be downloaded."""

    directory: Path
    index: SnapshotIndex
    links: Mapping[Path, Path]
    copies: Mapping[Path, Path]
    missing: Mapping[Path, FileIndex]


def _plan(container: BlobContainer, blob: str, directory: Path, threads: int) -> _Plan:
    """Each file that is there is linked once: two links would change together. Empty files are made anew.

    A link has the permissions of the file that is there, which must not change before the switch.
    """
    index = from_json(container.get(blob).data, blob)
    there = _content_of(directory, threads)
    new = place.restoring(directory)
    links: dict[Path, Path] = {}
    copies: dict[Path, Path] = {}
    missing: dict[Path, FileIndex] = {}
    for path, file in index.root.files():
        source = there.pop((file.blake3, file.metadata.size), None) if file.blake3 and file.metadata.size else None
        if source is None:
            missing[new / path] = file
        else:
            alike = source.metadata.permissions == file.metadata.permissions
            (links if alike else copies)[new / path] = directory / source.path
    return _Plan(directory, index, links, copies, missing)


def _keep(plan: _Plan) -> None:
    for new, there in plan.links.items():
        os.link(there, new, follow_symlinks=False)
    for new, there in plan.copies.items():
        shutil.copyfile(there, new, follow_symlinks=False)
        place.sync(new)


def _content_of(directory: Path, threads: int) -> dict[Content, LocalFile]:
    """The files in a directory, by content; none if it is not there or cannot be read."""
    try:
        return {file.content: file for file in scan(directory, threads).all_files()}
    except AzureBlobError as error:
        if not isinstance(error, NotFoundError):
            logger.warning("nothing of %s is kept: %s", directory, error)
        return {}

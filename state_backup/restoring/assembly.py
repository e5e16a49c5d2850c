"""Assemble the directories of a checkpoint: take what is on disk already, download the rest, verify, switch.

Nothing is in place before all of it is verified. If what is stored is gone or damaged or cannot be reached, or the
process is killed, the files that were downloaded stay until the next attempt, which finds them by their content, and
those that were begun by their notes (`pieces`); else what has failed is removed.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from foundation.errors import AzureBlobError, ConflictError, CorruptError, NotFoundError, TransientError
from foundation.report import ProgressCallbacks
from state_backup.local import durable, place
from state_backup.local.scan import ChecksumCache, scan
from state_backup.record.store import read_index
from state_backup.restoring.download import Downloader
from state_backup.restoring.pieces import begun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from azure_account.container import BlobContainer
    from state_backup.index.dir_diff import Content, LocalDir
    from state_backup.index.snapshot_index import DirIndex, FileIndex
    from state_backup.metrics import StateMetrics

logger = logging.getLogger("state_backup")

_PRIVATE_FILE = "rw-------"
_PRIVATE_DIR = "rwx------"
_NO_LINK = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
"""Why a file cannot be linked, though it may be copied: the file system, a mount, or the rights on another's file."""


@dataclass(frozen=True)
class Target:
    """A directory to assemble. sources: where files of the same content are looked for, the first one first.

    Files of `sources` are hard-linked where the disk can do that, so nothing may change them in place. private: files
    and directories get the permissions `rw-------` and `rwx------`, whatever was backed up. known: files of sources
    that are not read again; by default each is.
    """

    directory: Path
    sources: tuple[Path, ...]
    private: bool = False
    known: ChecksumCache | None = None


@dataclass(frozen=True)
class DownloadSettings:
    """How files are downloaded, and whom that is reported to."""

    metrics: StateMetrics
    threads: int
    report: ProgressCallbacks = ProgressCallbacks()


@dataclass(frozen=True)
class AssemblyResult:
    """Files and bytes that were downloaded, and those that were on disk (or empty), also of an earlier attempt."""

    downloaded_files: int
    downloaded_bytes: int
    kept_files: int
    kept_bytes: int


def assemble(
    container: BlobContainer, indexes: Mapping[str, str], targets: Mapping[str, Target], transfer: DownloadSettings
) -> AssemblyResult:
    """Make directories, by store name, what the snapshot indexes in these blobs say; then replace what is there.

    The caller has the claims of the directories. `NotFoundError` if a blob is gone, `CorruptError` if bytes are not
    those that were backed up, `TransientError` if none comes: what was downloaded stays, for the next call, until the
    claim's holder recovers them.
    `ConfigurationError` or `OSError` if the disk refuses something. After an error the directories are as before.
    """
    plans = []
    for store, target in targets.items():
        with transfer.metrics.measured("getSnapshotIndexSeconds", store=store):
            plans.append(_plan(container, indexes[store], target, transfer.threads))
    sizes = [file.metadata.size for plan in plans for _, file in plan.root.files()]
    downloaded = [file.metadata.size for plan in plans for file in plan.missing.values() if file.metadata.size]
    transfer.report.planned(len(downloaded), sum(downloaded))
    try:
        for plan in plans:
            place.make_new(plan.directory, plan.root)
            _keep(plan)
        for plan in plans:
            place.forget_downloaded(plan.directory)
        with Downloader(container, threads=transfer.threads) as downloader:
            files = {path: file for plan in plans for path, file in plan.missing.items()}
            downloader.files(files, transfer.report.progress)
        for plan in plans:
            place.apply_permissions(place.restoring(plan.directory), plan.root)
        _switch_all([plan.directory for plan in plans])
    except (NotFoundError, CorruptError, TransientError):
        for plan in plans:
            place.set_aside(plan.directory)
        raise
    except BaseException:
        for plan in plans:
            place.undo(plan.directory)
        raise
    return AssemblyResult(len(downloaded), sum(downloaded), len(sizes) - len(downloaded), sum(sizes) - sum(downloaded))


def _switch_all(directories: Sequence[Path]) -> None:
    """Put all of them in place, or none: the old ones are deleted when each new one is in its place, and on disk."""
    done: list[Path] = []
    try:
        for directory in directories:
            place.switch(directory)
            done.append(directory)
        for directory in directories:
            durable.sync(directory.parent)
    except BaseException:
        for directory in done:
            place.switch_back(directory)
        raise
    for directory in directories:
        place.discard(directory)


@dataclass(frozen=True)
class _Plan:
    """What is done for one directory. links, copies: files that are there, by new path. missing: to be downloaded."""

    directory: Path
    root: DirIndex
    links: dict[Path, Path] = field(default_factory=dict)
    copies: dict[Path, Path] = field(default_factory=dict)
    missing: dict[Path, FileIndex] = field(default_factory=dict)


def _plan(container: BlobContainer, blob: str, target: Target, threads: int) -> _Plan:
    """Each file that is there is linked once: two links would change together. Empty files are created."""
    root = read_index(container, blob).root
    plan = _Plan(target.directory, _private(root) if target.private else root)
    known = ChecksumCache() if target.known is None else target.known
    there = _content_of((*target.sources, place.downloaded(target.directory)), threads, known)
    new = place.restoring(target.directory)
    for path, file in plan.root.files():
        source = there.pop((file.blake3, file.metadata.size), None) if file.metadata.size else None
        if source is None:
            plan.missing[new / path] = file
        else:
            (plan.links if _may_link(source, file, target) else plan.copies)[new / path] = source
    return plan


def _may_link(source: Path, file: FileIndex, target: Target) -> bool:
    """Whether a file that is there may be linked: it is this user's, and has the permissions of the index.

    They must not change before the switch; only what an earlier attempt has downloaded is nobody else's.
    """
    found = source.stat()
    if found.st_uid != os.geteuid():
        return False
    if stat.S_IMODE(found.st_mode) == place.mode_of(file.metadata.permissions):
        return True
    return found.st_nlink == 1 and source.is_relative_to(place.downloaded(target.directory))


def _private(root: DirIndex) -> DirIndex:
    return replace(
        root,
        files_present=tuple(
            replace(file, metadata=replace(file.metadata, permissions=_PRIVATE_FILE)) for file in root.files_present
        ),
        sub_dirs_present=tuple(map(_private, root.sub_dirs_present)),
        permissions=_PRIVATE_DIR,
    )


def _keep(plan: _Plan) -> None:
    for new, there in plan.links.items():
        _link(there, new)
    for new, there in plan.copies.items():
        _copy(there, new)
    wanted = {file.blake3: new for new, file in plan.missing.items()}
    for blake3, there in begun(place.downloaded(plan.directory), wanted):
        if not os.path.lexists(wanted[blake3]):
            _link(there, wanted[blake3])


def _link(there: Path, new: Path) -> None:
    try:
        os.link(there, new, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy(there, new)


def _copy(there: Path, new: Path) -> None:
    shutil.copyfile(there, new, follow_symlinks=False)
    durable.sync(new)


def _scanned(directory: Path, threads: int, known: ChecksumCache) -> LocalDir:
    """A program that opens a database may rewrite a small file at the same time: then the directory is read again."""
    try:
        return scan(directory, threads, known)
    except ConflictError:
        return scan(directory, threads, known)


def _content_of(directories: tuple[Path, ...], threads: int, known: ChecksumCache) -> dict[Content, Path]:
    """The files in these directories, by content; none of a directory that is not there or cannot be read.

    Of two with the same content the one in the first directory. A file that several have as a hard link is read once;
    known: files that are not read again. It is left with those of the first directory, where the next call begins.
    """
    found: dict[Content, Path] = {}
    for directory in reversed(directories):
        try:
            files = _scanned(directory, threads, known).all_files()
        except AzureBlobError as error:
            if not isinstance(error, NotFoundError):
                logger.warning("nothing of %s is kept: %s", directory, error)
            continue
        for file in files:
            found[file.content] = directory / file.path
    return found

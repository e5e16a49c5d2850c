"""Restore stores: choose a checkpoint that is whole, and make directories what it has.

In the container no lock is taken. If a blob is gone, newer checkpoints have dropped this one: the record is read again,
and the newest checkpoint is planned again. What has been downloaded is found by its content. On the host, a lock file
keeps two restores of one directory apart.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from azure_account.location import Location
from azure_account.undelete import try_undelete
from foundation.arguments import Count, Wait, checked
from foundation.clock import SYSTEM_CLOCK
from foundation.disk_advice import next_step
from foundation.errors import (
    AzureBlobError,
    ConfigurationError,
    ConflictError,
    CorruptError,
    NotFoundError,
    TransientError,
)
from foundation.host_locks import LOCK_TIMEOUT
from foundation.report import ProgressCallbacks
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.local import place
from state_backup.local.linux import mount_at_or_below
from state_backup.local.scan import ChecksumCache
from state_backup.metrics import StateMetrics
from state_backup.record.record import Checkpoint
from state_backup.record.store import open_location, record_store, undelete_lost
from state_backup.restoring.assembly import DownloadSettings, Target, assemble

if TYPE_CHECKING:
    from collections.abc import Collection

    from azure_account.container import BlobContainer
    from foundation.clock import Clock
    from state_backup.record.names import StateNames
    from state_backup.restoring.assembly import AssemblyResult

logger = logging.getLogger("state_backup")

_ATTEMPTS = 5


@dataclass(frozen=True)
class RestoreResult:
    """What was restored: the checkpoint, files and bytes that were downloaded, and those that were there (or empty).

    If there were several attempts, what an earlier one has downloaded was there. undeleted: blobs that were gone and
    that soft delete has given back. passed_over: newer checkpoints that are not whole, or have not all of the stores,
    newest first, with the reason.
    """

    checkpoint: Checkpoint
    downloaded_files: int
    downloaded_bytes: int
    kept_files: int
    kept_bytes: int
    undeleted: tuple[str, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)


@checked
@dataclass(frozen=True)
class RestoreSettings:
    """How directories are restored.

    threads: requests at a time.
    lock_timeout: seconds to wait for another restore of the same directory, then it is a `TransientError`.
    """

    threads: Count = 16
    lock_timeout: Wait = LOCK_TIMEOUT


@checked
@dataclass(frozen=True)
class LinkSources:
    """Directories whose files are hard-linked into a new one, if they have the same content.

    No program may change a file of them, or append to one, such as those that `materialise` has made and that are
    opened read-only. A store that is open for writing is not such a directory: RocksDB appends to its `MANIFEST` and
    `.log` files, and the new directory would change with it.

    known: files that an earlier call has verified in these directories, and that are not read again. A call of
    `materialise` leaves those of the first directory there.
    """

    directories: Sequence[Path] = ()
    known: ChecksumCache | None = None


@checked
def checkpoints(where: Location) -> tuple[Checkpoint, ...]:
    """The checkpoints of a state that can be restored, newest first; none if there is no record."""
    return _checkpoints(*open_location(where))


def _checkpoints(container: BlobContainer, names: StateNames) -> tuple[Checkpoint, ...]:
    stored = record_store(container, names).read()
    return () if stored is None else stored.document.checkpoints


@checked
def restore(
    where: Location,
    stores: Mapping[str, Path | str],
    *,
    checkpoint_id: CheckpointId | str | None = None,
    settings: RestoreSettings = RestoreSettings(),
    report: ProgressCallbacks = ProgressCallbacks(),
) -> RestoreResult:
    """Make these directories, by store name, what the stores were at a checkpoint.

    where: the state.
    stores: directories by store name.
    checkpoint_id: a checkpoint; by default the newest that is whole and has all of these stores.
    settings: threads, and how long to wait for another restore.
    report: gets, at each attempt, the files to download, and each piece that was.

    Files that are there with the same content are kept, whatever they are called: by hard links, or as copies if their
    permissions change or the disk has no links. When all is there and verified, each directory is replaced at once, one
    after the other; until then they stay as they are. Nothing may write to them meanwhile. A symbolic link stays, and
    the directory that it leads to is replaced.

    The names that begin with a directory's and end in `.restore.lock`, `.restoring`, `.downloaded` and `.replaced` are
    the restore's own: it is an error if somebody else has made them.

    What was deleted and is needed, the record too, is undeleted if the account has soft delete. If blobs of
    the newest checkpoint stay lost, or it has not all of these stores, an older one is restored, with a warning that
    says why; of a checkpoint that was asked for, that is an error. `NotFoundError` if no checkpoint has these stores,
    `ConflictError` if a killed restore has left a directory that another program has made again. After a
    `TransientError` what was downloaded stays beside the directories: the next restore goes on with it.
    """
    container, names = open_location(where)
    targets = {store: Target(directory, (directory,)) for store, directory in _resolved(stores).items()}
    transfer = DownloadSettings(StateMetrics(names.state), settings.threads, report)
    wanted = None if checkpoint_id is None else str(checkpoint_id)  # a `CheckpointId` may have been given
    return _run(_Attempts(container, names, targets, wanted, transfer, settings.lock_timeout))


@checked
def materialise(
    where: Location,
    store: str,
    checkpoint_id: CheckpointId | str,
    directory: Path,
    sources: LinkSources = LinkSources(),
    settings: RestoreSettings = RestoreSettings(),
) -> RestoreResult:
    """Make a directory that does not exist yet: the store as it was at a checkpoint, for its owner only to read.

    where: the state.
    sources: directories whose files are hard-linked if they have the same content. The other files are downloaded; all
    are verified by BLAKE3.

    The directory is made beside its place, as `<directory>.restoring`, and renamed when all of it is on disk. What a
    killed process has downloaded of it is verified and used. Names, lock and undeletion are those of `restore`.
    `NotFoundError` if there is no such checkpoint, `ConfigurationError` if the directory exists, also if another
    process has just made it, or the disk is full, `CorruptError` if what is stored is damaged; after an error there is
    no directory. After a `TransientError` what was downloaded stays for the next call.
    """
    container, names = open_location(where)
    _check_new(directory)
    target = Target(_resolved({store: directory})[store], tuple(sources.directories), private=True, known=sources.known)
    transfer = DownloadSettings(StateMetrics(names.state), settings.threads)
    wanted, wait = str(checkpoint_id), settings.lock_timeout
    return _run(_Attempts(container, names, {store: target}, wanted, transfer, wait, new=True))


def _run(attempts: _Attempts, clock: Clock = SYSTEM_CLOCK) -> RestoreResult:
    begun, state = clock.monotonic(), attempts.names.state
    try:
        with attempts.transfer.metrics.measured("restoreSeconds"):
            made = attempts.run()
    except OSError as error:
        raise ConfigurationError("restore", f"state {state}", str(error), next_step(error)) from error
    logger.info(
        "state %s: checkpoint %s is restored, %d files with %d bytes downloaded, %d files were there, in %.2f s",
        state, made.checkpoint.id, made.downloaded_files, made.downloaded_bytes, made.kept_files,
        clock.monotonic() - begun,
    )  # fmt: skip
    return made


@dataclass
class _Attempts:
    container: BlobContainer
    names: StateNames
    targets: Mapping[str, Target]
    checkpoint_id: str | None
    transfer: DownloadSettings
    lock_timeout: float
    new: bool = False
    undeleted: list[str] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    tried_again: list[Checkpoint] = field(default_factory=list)

    def run(self) -> RestoreResult:
        """Claim the directories, always in the same order, and try. new: they must not be there."""
        directories = sorted(target.directory for target in self.targets.values())
        with ExitStack() as claims:
            for directory in directories:
                claims.enter_context(place.claim(directory, self.lock_timeout))
            for directory in directories:
                place.recover(directory)
                if self.new:
                    _check_new(directory)
            done: Collection[Path] = directories
            try:
                return self._try()
            except TransientError:
                done = ()  # what was downloaded waits for the next restore, as after a kill
                raise
            finally:
                for directory in done:
                    place.forget_downloaded(directory)

    def _try(self) -> RestoreResult:
        """Each checkpoint is undeleted once, and passed over once; only those that were dropped are counted."""
        overtaken = 0
        while overtaken < _ATTEMPTS:
            chosen = self._choose()
            try:
                assembled = assemble(self.container, chosen.indexes, self.targets, self.transfer)
            except (NotFoundError, CorruptError) as error:
                if chosen not in _checkpoints(self.container, self.names):
                    overtaken += 1  # it was dropped meanwhile: a newer one is there
                elif not self._undelete(chosen, error):
                    self._give_up(chosen, error)
            else:
                return self._restored(chosen, assembled)
        cause = "its checkpoints were dropped by newer ones faster than they could be read"
        raise ConflictError("restore", f"state {self.names.state}", cause, "Keep more checkpoints (`keep`).")

    def _restored(self, chosen: Checkpoint, assembled: AssemblyResult) -> RestoreResult:
        names = ("filesRestored", "bytesRestored", "filesKept", "bytesKept")
        files, size, kept_files, kept_size = numbers = astuple(assembled)
        for name, number in zip(names, numbers, strict=True):
            self.transfer.metrics.count(name, number)
        undeleted = tuple(self.undeleted)
        return RestoreResult(chosen, files, size, kept_files, kept_size, undeleted, self.passed_over)

    def _choose(self) -> Checkpoint:
        found = _checkpoints(self.container, self.names) or self._of_deleted_record()
        fitting = [
            each
            for each in found
            if set(self.targets) <= set(each.indexes)
            and str(each.id) not in self.passed_over
            and self.checkpoint_id in {None, str(each.id)}
        ]
        if not fitting:
            raise self._none_fits(found)
        if self.checkpoint_id is None:
            for newer in found[: found.index(fitting[0])]:
                self._note_missing_stores(newer)
        return fitting[0]

    def _none_fits(self, found: tuple[Checkpoint, ...]) -> NotFoundError:
        have = "; ".join(f"{each.id} with {', '.join(sorted(each.indexes))}" for each in found) or "none"
        wanted = f"checkpoint {self.checkpoint_id or ''}".rstrip()
        whole = "whole " if self.passed_over else ""
        cause = f"there is no {whole}{wanted} with {', '.join(sorted(self.targets))}; there are: {have}"
        lost = "".join(f"; {id_} was passed over ({why})" for id_, why in self.passed_over.items())
        step = (
            "`verify` lists what is lost."
            if lost
            else "Choose one of these."
            if found
            else "Check the name; a new state has none."
        )
        return NotFoundError("restore", f"state {self.names.state}", cause + lost, step)

    def _note_missing_stores(self, newer: Checkpoint) -> None:
        missing = sorted(set(self.targets) - set(newer.indexes))
        if missing and str(newer.id) not in self.passed_over:
            self._pass_over(newer, f"it has no store {', '.join(missing)}", "has not all stores")

    def _of_deleted_record(self) -> tuple[Checkpoint, ...]:
        """The checkpoints of a record that was deleted and can be undeleted.

        `NotFoundError` if the state has lost its record. A state that never was has no checkpoints, and there is no
        warning that the account cannot undelete.
        """
        back, refused = try_undelete(self.container, [self.names.record])
        self._note(back)
        stored = record_store(self.container, self.names).read()
        if stored is not None:
            return stored.document.checkpoints
        if any(True for prefix in self.names.prefixes for _ in self.container.list(prefix)):
            cause = f"it has blobs, but its record {self.names.record} was deleted"
            why = f", and cannot be undeleted ({refused})" if refused else ""
            step = "Bring that blob back, from a soft-deleted or earlier version, and run it again."
            raise NotFoundError("restore", f"state {self.names.state}", cause + why, step)
        return ()

    def _undelete(self, chosen: Checkpoint, error: AzureBlobError) -> bool:
        if chosen in self.tried_again or not isinstance(error, NotFoundError):
            return False
        self.tried_again.append(chosen)
        back = undelete_lost(self.container, self.names, chosen, self.targets, self.transfer.threads)
        self._note(back)
        return bool(back)

    def _note(self, undeleted: tuple[str, ...]) -> None:
        self.undeleted += undeleted
        self.transfer.metrics.count("blobsUndeleted", len(undeleted))

    def _give_up(self, chosen: Checkpoint, error: AzureBlobError) -> None:
        """Pass a checkpoint over whose blobs are gone or damaged. One that was asked for is an error."""
        cause = error.failure
        if self.checkpoint_id is None:
            self._pass_over(chosen, cause, "is not whole")
        elif isinstance(error, NotFoundError):
            step = "Restore an older checkpoint, or bring back what is lost: `verify` lists it."
            name = f"checkpoint {chosen.id} of state {self.names.state}"
            raise NotFoundError("restore", name, cause, step) from error
        else:
            raise error

    def _pass_over(self, checkpoint: Checkpoint, cause: str, why: str) -> None:
        text = "checkpoint %s of %s %s, an older one is tried: %s"
        logger.warning(text, checkpoint.id, self.names.state, why, cause)
        self.passed_over[str(checkpoint.id)] = cause
        self.transfer.metrics.count("checkpointsPassedOver")


def _check_new(directory: Path) -> None:
    if os.path.lexists(directory):
        raise ConfigurationError("make", str(directory), "it exists", "Give a new directory.")


def _resolved(stores: Mapping[str, Path | str]) -> dict[str, Path]:
    """The directories without symbolic links.

    `ConfigurationError` if one is a file, or is, or lies in, another one, or has a name that restores use.
    """
    found = {store: _directory(Path(path)) for store, path in stores.items()}
    _check_apart(found)
    return found


def _directory(path: Path) -> Path:
    try:
        resolved = path.resolve()
        file = resolved.is_symlink() or (resolved.exists() and not resolved.is_dir())  # Python 3.13 keeps such a link
        mounted = mount_at_or_below(resolved)
    except (OSError, RuntimeError) as error:  # earlier ones report a circle of links
        raise ConfigurationError("restore", str(path), str(error), "Check the path.") from error
    if file:
        raise ConfigurationError("restore", str(path), "it is no directory", "Remove it, or check the path.")
    if mounted is not None:
        name = "it" if mounted == resolved else str(mounted)
        cause = f"{name} is a mount point, which cannot be replaced by another directory"
        raise ConfigurationError("restore", str(path), cause, next_step(OSError(errno.EBUSY, "")))
    return resolved


def _check_apart(stores: Mapping[str, Path]) -> None:
    for directory in stores.values():
        if directory.name.endswith(place.RESERVED):
            cause = f"names that end in {', '.join(place.RESERVED)} are those of directories at work"
            raise ConfigurationError("restore", str(directory), cause, "Give a directory with another name.")
    paths = sorted(directory.absolute() for directory in stores.values())
    for outer, inner in pairwise(paths):
        if inner.is_relative_to(outer):
            cause = f"{inner} and {outer} are not apart"
            raise ConfigurationError("restore", "stores", cause, "Give each store a directory of its own.")

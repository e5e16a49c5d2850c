"""A snapshot of a Spark checkpoint on a local disk, while its query writes: what Spark needs to go on after a batch.

    commits/0 … N          the newest, N, is the batch of the snapshot: it is read first
    offsets/0 … N + 1      N + 1 is there if Spark had planned that batch: it plans it in the same way again
    sources/0/0 … k        log of a file source, up to the entry that the newest of these offsets names
    state/0/3/…            versions of state up to N + 1, which is the version that batch N has written

Later files belong to batches that the restored query runs again, so they are left out: with them Spark would plan those
batches in another way. Spark gives a file its name when it is complete, so files are hard-linked and not read. SSTs are
the exception: a young file is copied, since it may still grow; an incomplete SST belongs to a version that is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.disk_advice import next_step
from foundation.errors import ConfigurationError, ConflictError, CorruptError
from state_backup.local.claim import check_names, claimed
from state_backup.local.place import remove
from state_backup.spark.position import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_YOUNG_SECONDS = 5.0
_NUMBER = re.compile(r"\.?(\d+)(?:\.compact)?(?:\.crc)?")
"""A file of a log: `17`, `.17.crc`, and `19.compact`, which has entry 19 and all before it."""
_VERSION = re.compile(r"\.?(\d+)(?:_[\w-]+)?\.(?:zip|changelog|delta|snapshot)(?:\.crc)?")
"""A file of state: `18.zip`, `18_1205f645-bf68.changelog`, `.18.delta.crc`."""
KEPT_OF_LOGS = 10
"""Batches of `offsets` and `commits` in the snapshot of a batch that runs. Spark reads the last two."""
_SNAPSHOT_TIMEOUT = 60.0
"""Seconds to wait for another backup of the same directory that has a snapshot of it."""
_LOG_VERSION = re.compile(r"v[0-9]+")
_FIRST = ("commits", "offsets")
_HEADER_LINES = 2
"""An offset file: version of the format, settings of the batch, then a line for each source."""


def newest_batch(location: Path) -> int | None:
    """The last batch that the checkpoint has committed; None before the first."""
    return max(_numbers_in(location / "commits"), default=None)


def whole_batch(location: Path) -> tuple[int | None, tuple[str, ...]]:
    """The last batch whose files are whole, and the torn files after it: Spark cannot start from a checkpoint with any.

    After a loss of power, files that were written last may be empty, cut, or of zeros. None: no batch is whole.
    """
    torn = [f"offsets/{planned}" for planned in _numbers_in(location / "offsets")[-1:]]
    torn = [name for name in torn if _fault(location / name)]
    try:
        query_id(location)
    except CorruptError:
        torn.append("metadata")
    for batch in reversed(_numbers_in(location / "commits")):
        faulty = [name for name in (f"commits/{batch}", f"offsets/{batch}") if _fault(location / name)]
        if not faulty:
            return batch, tuple(dict.fromkeys(torn))
        torn += faulty
    return None, tuple(dict.fromkeys(torn))


def query_id(location: Path) -> str | None:
    """The id of the query whose checkpoint this is; None before Spark has written it."""
    path = location / "metadata"
    try:
        return str(json.loads(path.read_text("utf-8"))["id"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"{error!r}") from error


@contextmanager
def snapshot_of(location: Path, retained: int = 100, planned: int | None = None) -> Iterator[tuple[Path, int | None]]:
    """A snapshot beside the checkpoint, and its batch, as long as the block lasts. All as of `take_snapshot`.

    `TransientError` if another backup of the directory has one for long.
    """
    snapshot = beside(location, "snapshot")
    with claimed(beside(location, "snapshot.lock"), [snapshot], _SNAPSHOT_TIMEOUT):
        try:
            yield snapshot, take_snapshot(location, snapshot, retained=retained, planned=planned)
        finally:
            remove(snapshot)


def check_snapshot(location: Path) -> None:
    """`ConfigurationError` if something else has the name of a snapshot."""
    check_names(beside(location, "snapshot.lock"), [beside(location, "snapshot")])


def take_snapshot(location: Path, target: Path, *, retained: int = 100, planned: int | None = None) -> int | None:
    """Make `target` a snapshot of the checkpoint, and return its batch; None before the first.

    target: a directory on the same disk; what is there is deleted.
    retained: batches that Spark keeps (`spark.sql.streaming.minBatchesToRetain`).
    planned: the batch that runs now: the snapshot has what Spark has planned for it, and ends before it, at -1 for the
    first one. It has only the last `KEPT_OF_LOGS` batches of Spark's logs. By default it ends at the newest batch.

    `ConflictError` if Spark has deleted files meanwhile that the snapshot needs, or has committed enough batches to do
    so: take another one.
    """
    if target.exists():
        remove(target)
    batch = newest_batch(location) if planned is None else planned - 1
    if batch is None:
        return None
    first = 0 if planned is None else planned - KEPT_OF_LOGS
    copy = _Copy(location, target)
    copy.files("commits", lambda path: _between(first, batch, path))
    copy.files("offsets", lambda path: _between(first, batch + 1, path))
    for name in (f"commits/{batch}", f"offsets/{batch}") if batch >= 0 else ("offsets/0",):
        if fault := _fault(target / name):
            raise _damaged(location / name, fault)
    entries = _log_offsets(target / "offsets")
    for name in sorted({path.name for path in location.iterdir()} - set(_FIRST)):
        copy.files(name, lambda path: _belongs(path, batch, entries))
    for source, entry in entries.items():
        _check_log(location, target / "sources" / source, entry)
    passed = (newest_batch(location) or batch) - batch
    if passed >= max(1, retained - 1):
        cause = f"{passed} batches were committed meanwhile, and Spark keeps {retained}"
        step = "Set spark.sql.streaming.minBatchesToRetain higher, or give the query a longer trigger interval."
        raise ConflictError("back up checkpoint", str(location), cause, step)
    return batch


def _check_log(location: Path, log: Path, last: int) -> None:
    """`ConflictError` unless the log has all entries up to the last: Spark deletes entries that it has compacted."""
    names = {path.name for path in log.iterdir()} if log.is_dir() else set()
    compacted = max((int(name.split(".")[0]) for name in names if name.endswith(".compact")), default=-1)
    missing = [entry for entry in range(compacted + 1, last + 1) if str(entry) not in names]
    if missing:
        cause = f"entry {missing[0]} of the log of source {log.name} was compacted and deleted meanwhile"
        raise ConflictError("back up checkpoint", str(location), cause, "It is tried again.")


def _between(first: int, last: int, path: str) -> bool:
    found = _NUMBER.fullmatch(path.rpartition("/")[2])
    return found is None or first <= int(found[1]) <= last


def _belongs(path: str, batch: int, entries: dict[str, int]) -> bool:
    """Whether the file is of the batches that the snapshot has. entries: the last one of the log of each source."""
    top, _, rest = path.partition("/")
    if top == "sources":
        source = rest.partition("/")[0]
        return source not in entries or _between(0, entries[source], path)
    if top == "state":
        version = _VERSION.fullmatch(path.rpartition("/")[2])
        return version is None or int(version[1]) <= batch + 1
    return True


def _log_offsets(offsets: Path) -> dict[str, int]:
    """For each file source, by its number, the entry of its log that the newest offsets name."""
    newest = offsets / str(_numbers_in(offsets)[-1])
    if fault := _fault(newest):
        raise _damaged(newest, fault)
    found = {}
    for source, line in enumerate(newest.read_text("utf-8").split("\n")[_HEADER_LINES:]):
        offset = json.loads(line) if line.startswith("{") else None
        if isinstance(offset, dict) and set(offset) == {"logOffset"}:
            found[str(source)] = int(offset["logOffset"])
    return found


def _numbers_in(log: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in log.iterdir() if path.name.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _fault(path: Path) -> str:
    """Why a file of `commits` or `offsets` is not whole: a version, a line of JSON, then what the log has."""
    if not path.is_file():
        return "it is gone"
    version, *lines = path.read_text("utf-8", errors="replace").split("\n")
    if not _LOG_VERSION.fullmatch(version):
        return "it does not begin with a version"
    try:
        for line in [*lines[:1], *(line for line in lines[1:] if line.startswith("{"))] or [""]:
            json.loads(line)
    except ValueError as error:
        return f"{error}"
    return ""


def _damaged(path: Path, cause: str) -> CorruptError:
    return CorruptError("read", str(path), cause, "Restore the checkpoint (`restore_checkpoint`).")


def _refused(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError("back up checkpoint", str(path), str(error), next_step(error))


class _Copy:
    def __init__(self, root: Path, target: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._root, self._target = root, target
        self._old = clock.now() - _YOUNG_SECONDS

    def files(self, below: str, wanted: Callable[[str], bool]) -> None:
        """The files of a directory (or one file), with those below it, as far as they are wanted and still there."""
        for path in self._paths(below):
            if wanted(path):
                self._file(path)

    def _paths(self, path: str) -> Iterator[str]:
        if (self._root / path).is_symlink() or not (self._root / path).is_dir():
            yield path
            return
        try:
            (self._target / path).mkdir(parents=True, exist_ok=True)
            names = sorted(each.name for each in (self._root / path).iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            raise _refused(self._root / path, error) from error
        for name in names:
            if not (name.startswith(".") and (name.endswith((".tmp", ".tmp.crc")))):
                yield from self._paths(f"{path}/{name}")

    def _file(self, path: str) -> None:
        source, target = self._root / path, self._target / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink() or source.stat().st_mtime < self._old:
                os.link(source, target, follow_symlinks=False)
            else:
                shutil.copyfile(source, target)  # with a time of its own: see `ChecksumCache`
                shutil.copymode(source, target)
        except FileNotFoundError:
            target.unlink(missing_ok=True)  # Spark has deleted it: nothing that is kept needs it
        except OSError as error:
            raise _refused(source, error) from error

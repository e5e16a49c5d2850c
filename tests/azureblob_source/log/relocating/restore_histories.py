"""The histories of commits and of reverts with restores between their events: finished, killed, asleep, side by side.

The events of the history stay those of its seed. The truth of both knows by the versions alone what a restore takes
away; here it is compared too what is live after it.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft
from azureblob_source.log.live import live_blobs
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance.restoring import plan_restore
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, CorruptError
from tests.azureblob_source.log.checkpoint_histories import CheckpointedHistory
from tests.azureblob_source.log.commit_histories.history import CommitHistory
from tests.azureblob_source.log.commit_histories.world import epoch_of
from tests.azureblob_source.log.relocating.revert_histories.history import RevertHistory
from tests.histories.history import Event, History, draw_events

if TYPE_CHECKING:
    from azureblob_source.log.entry import LogEntry

WEIGHTS = {"back": 4, "back_and_stop": 4, "back_and_go_on": 2}
NEAR = 6
"""Versions before the head that are restored most often."""


class WithRestores(History):
    """A history in which versions are restored."""

    def draw(self, draws: Random) -> list[Event]:
        """The events of the seed, and restores between them."""
        events, own = super().draw(draws), Random(self.seed + 1)  # type: ignore[safe-super]
        for event in draw_events(WEIGHTS, 1 + len(events) // 4, own):
            events.insert(own.randrange(len(events) + 1), event)
        return events

    def draft(self, stream: str) -> Draft:
        """What a restore appends begins as this."""
        raise NotImplementedError

    def _restoring(self, where: int, how: int) -> Any:
        """A process that restores a version of a stream; None if that has none, or many processes are at work."""
        world = self.world
        stream = world.streams[where % len(world.streams)]
        versions, first = world.truth.log[stream], world.truth.first[stream]
        if not versions or len(world.alive()) >= NEAR:
            return None
        head, draws = max(versions), Random(how)
        version = draws.randrange(first, head + 1) if how % 4 == 0 else max(first, head - draws.randrange(NEAR))
        act = partial(go_back, history=self, stream=stream, version=version, planned=how % 8 > 4)
        return world.start("restore", act, how)

    def _back(self, where: int, how: int) -> None:
        process = self._restoring(where, how)
        if process is not None:
            process.finish()

    def _back_and_stop(self, where: int, how: int) -> None:
        """A restore is killed, or falls asleep, at any request, or before one that puts or deletes."""
        process = self._restoring(where, how)
        if process is None:
            return
        aim = ("", "commit", "remove", "remove")[where // 8 % 4]
        for _ in range(1 + how // 8 % 2):
            if not process.move(1 + how // 16 % 40 if not aim else 80, aim or "none"):
                return
        if where & 64:
            process.step()
        if process.ended or where & 128:
            self.seen["restore falls asleep"] += not process.ended
            return
        when = "before it puts" if not self._has_put(process) else "while it deletes"
        self.seen[f"restore is killed {when}"] += 1
        self.world.trace(f"  {process!r} is killed")
        process.kill()

    def _back_and_go_on(self, where: int, how: int) -> None:
        """Restores of two versions are at work at once."""
        one, other = self._restoring(where, how), self._restoring(where, how // 3)
        for process in (one, other, one, other):
            if process is not None and not process.ended:
                process.move(1 + how % 20, "none")
        for process in (other, one):
            if process is not None and not process.ended:
                process.finish()
        self.seen["two restores at once"] += one is not None and other is not None

    def _has_put(self, process: Any) -> bool:
        entries = (entry for log in self.world.streams for entry in self.world.truth.log[log].values())
        return any(entry.operation == "restore" and entry.write_id == process.restoring for entry in entries)


def go_back(process: Any, history: WithRestores, stream: str, version: int, *, planned: bool) -> None:
    """`azureblob restore`, which has shown its plan (`planned`), or `restore_stream`."""
    world, log = process.world, CommitLog(process.container, stream)
    draft = history.draft(stream)
    process.restoring, before = draft.write_id, max(world.truth.log[stream])
    try:
        head = plan_restore(log, version).restoration.head.version if planned else None
        done = restore(log, version, draft, Publisher(process.container), head)
    except AzureBlobError as error:
        world.trace(f"    {process!r} is refused: {error}")
        world.seen[f"restore fails: {type(error).__name__}"] += 1
        _check_refusal(world, stream, (version, before), error)
        return
    if done is None:
        world.seen["restore of nothing"] += 1
        return
    _check_restored(world, stream, version, done)
    world.seen["restore"] += 1


def _check_refusal(world: Any, stream: str, versions: tuple[int, int], error: AzureBlobError) -> None:
    """A restore of a version is refused for a reason, which may be past: it has begun at a head."""
    truth, text = world.truth, str(error)
    if isinstance(error, CorruptError):
        truth.fail(f"a restore takes for damaged what is not: {error}")
    if isinstance(error, ConflictError) and "restore was planned" in text:
        world.seen["restore meets a writer that goes on"] += 1
    if isinstance(error, ConfigurationError) and "has deleted rows" in text:
        world.seen["restore of what was deleted is refused"] += 1
        version, begun = versions
        heads = range(begun, max(truth.log[stream]) + 1)
        if all(_live(truth, stream, version) <= _live(truth, stream, head) for head in heads):
            truth.fail(f"version {version} of {stream} cannot be restored, and all of it is live: {error}")


def _check_restored(world: Any, stream: str, version: int, entry: LogEntry) -> None:
    """The log says after a restore what it said at the version, but for what was vacuumed."""
    truth, at = world.truth, entry.version
    entries = truth.log[stream]
    world.seen["restore of several batches"] += sum(bool(entries[each].blobs) for each in range(version + 1, at)) > 1
    world.seen["restore of a version without rows"] += not _live(truth, stream, version)
    world.seen["second restore of a stream"] += any(
        entries[each].operation == "restore" for each in entries if each < at
    )
    world.seen["restore beside a vacuum"] += truth.first[stream] > 0
    if _live(truth, stream, version) != _live(truth, stream, at):
        truth.fail(f"version {at} of {stream} restores {version}, and other blobs are live")
    if max(entries) == at and (left := {removal.name for removal in entry.removed} & set(truth.visible)):
        truth.fail(f"a restore has ended, and {min(left)} is visible")


def _live(truth: Any, stream: str, version: int) -> set[str]:
    entries = sorted(truth.log[stream].items())
    return set(live_blobs(entry for each, entry in entries if truth.first[stream] <= each <= version))


class _OfCommits(WithRestores):
    def draft(self, stream: str) -> Draft:
        """With the epoch of the stream's queries."""
        world = self.world
        return Draft(world.new_id(), world.utc().isoformat(), epoch=epoch_of(world, stream))


class _OfReverts(WithRestores):
    def draft(self, stream: str) -> Draft:
        """With the epoch of the query's drivers."""
        draft: Draft = self.world.draft()
        return draft


class RestoreHistory(_OfCommits, CommitHistory):
    """Of the commit protocol."""


class RestoredRevertHistory(_OfReverts, RevertHistory):
    """Of batches that are taken back."""


class CheckpointedRestoreHistory(_OfCommits, CheckpointedHistory):
    """Of the commit protocol, with checkpoints of the logs."""

"""The same histories with checkpoints of the logs, which are damaged, killed and made again: reads do not change.

What is compared is what is live at versions of each kind, by the checkpoints and by the entries alone. The events of
the history stay those of its seed; those of checkpoints come between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from azure_account.memory.faults import Crash, LateEffect, LostAnswer
from azureblob_source.log import live_state
from azureblob_source.log.checkpoint import building
from azureblob_source.log.checkpoint.tail import added_by
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.live_state import added_at, by_entries
from azureblob_source.log.naming import hint_name, manifest_version, metadata_prefix
from azureblob_source.maintenance import checkpoints
from foundation.errors import AzureBlobError, NotFoundError
from tests.azureblob_source.log.commit_histories.history import CommitHistory
from tests.azureblob_source.log.relocating.revert_histories.history import RevertHistory
from tests.histories.history import Event, History, draw_events

if TYPE_CHECKING:
    from azure_account.values import BlobProperties
    from azureblob_source.log.entry import BlobEntry
    from azureblob_source.log.live_state import LiveState

Added: TypeAlias = "tuple[int, str, BlobEntry]"
"""Version and timestamp of an entry, and a blob that it adds."""
WEIGHTS = {"look": 6, "damage": 4, "cut": 4, "make": 2, "mishap": 2}
FAULTS = (LostAnswer(), LateEffect(), Crash(), Crash(after_effect=True))
SMALL = {"OPEN_BLOBS": 2, "MANIFEST_BLOBS": 4, "MERGED": 2}


class WithCheckpoints(History):
    """A history in which every few versions a checkpoint is made, and used for every read."""

    _driver: Any
    _kill_process: Any

    def draw(self, draws: Random) -> list[Event]:
        """The events of the seed, and those of checkpoints between them."""
        events, own = super().draw(draws), Random(self.seed)  # type: ignore[safe-super]
        self.world.checkpoint_interval = own.choice([1, 1, 2, 3])
        for event in draw_events(WEIGHTS, len(events) // 2, own):
            events.insert(own.randrange(len(events) + 1), event)
        return events

    @contextmanager
    def _few_suffice(self) -> Iterator[None]:
        with super().around(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(live_state, "FEW_ENTRIES", 0)
            patch.setattr(live_state, "MANY_ENTRIES", 0)
            for name, value in SMALL.items():
                patch.setattr(building, name, value)
            yield

    def around(self) -> AbstractContextManager[None]:
        """No log is too short for a checkpoint, and manifests are small."""
        return self._few_suffice()

    # --- events -------------------------------------------------------------------------------------------------------

    def _look(self, where: int, how: int) -> None:
        """Compare what is live at the head and at two other versions of a stream."""
        stream = self.world.streams[where % len(self.world.streams)]
        head = CommitLog(self.world.container, stream).refresh()
        if head is None:
            return
        draws = Random(how)
        for version in {head.version, draws.randrange(head.version + 1), draws.randrange(head.version + 1)}:
            self._compare(stream, version)

    def _compare(self, stream: str, version: int) -> None:
        by_log, by_checkpoint = self._entries_say(stream, version), self._checkpoints_say(stream, version)
        if by_log != by_checkpoint:
            text = f"version {version} of {stream} has {by_checkpoint} by a checkpoint, by the log {by_log}"
            self.world.truth.fail(text)

    def _entries_say(self, stream: str, version: int) -> list[Added] | None:
        """The blobs that are live; None if the version is not in the log."""
        try:
            entries = by_entries(_known(self.world.container, stream), version).entries
        except NotFoundError:
            return None
        return sorted(((entry.version, entry.timestamp, blob) for entry, blob in added_by(entries)), key=_by_name)

    def _checkpoints_say(self, stream: str, version: int) -> list[Added] | None:
        log = _known(self.world.container, stream)
        try:
            state = live_state.live_state(log, version)
            found = sorted(added_at(_known(self.world.container, stream), version), key=_by_name)
        except NotFoundError:
            return None
        self.seen["read without a checkpoint" if state.base is None else "read by a checkpoint"] += 1
        if state.base is not None:
            self._count(state)
        return found

    def _count(self, state: LiveState) -> None:
        operations = {entry.operation for entry in state.entries[1:]}
        self.seen.update(f"checkpoint, then {operation}" for operation in operations)
        self.seen["checkpoint beside a vacuum"] += state.log.kept_from > 0
        try:
            effect = state.effect()
            table = None if effect is None else state.of_base(effect)
        except live_state.UNUSABLE:
            self.seen["damaged manifest is met"] += 1
        else:
            self.seen["checkpoint is no base"] += table is None
            self.seen["checkpoint of blobs that are gone"] += table is not None and len(table) < state.blobs_of_base()

    def _damage(self, where: int, how: int) -> None:
        """Something of a checkpoint is missing, empty, torn, or what another one is; then it is read."""
        names = self._parts()
        if not names:
            return
        name, container = names[where % len(names)], self.world.container
        kind = "hint" if name.endswith(".json") else "list" if manifest_version(name) is None else "manifest"
        data, other = container.get(name).data, container.get(names[how // 8 % len(names)]).data
        match how % 4:
            case 0:
                container.delete(name)
            case 1:
                container.put(name, b"")
            case 2:
                container.put(name, data[: len(data) // 2])
            case _:
                container.put(name, other)
        self.seen[f"{('missing', 'empty', 'torn', 'exchanged')[how % 4]} {kind}"] += 1
        self.world.trace(f"  damage {how % 4} of {name}")
        self._look(self.world.streams.index(name.split("/")[0]) if name.split("/")[0] in self.world.streams else 0, how)

    def _parts(self) -> list[str]:
        """Names of all lists, manifests and hints."""
        found: list[BlobProperties] = []
        for log in self.world.logs:
            found += [*self.world.container.list(metadata_prefix(log)), *self.world.container.list(hint_name(log))]
        return sorted(blob.name for blob in found)

    def _cut(self, where: int, how: int) -> None:
        """A driver is killed within a checkpoint, or sleeps there."""
        process = self._driver(1 + where % 3, how)
        for _ in range(1 + how // 4 % 3):
            if process is None or not process.move(120, "checkpoint"):
                return
            if how % 2:
                process.step()
        if process is not None and not process.ended and process.is_at("checkpoint"):
            self.seen["process rests within a checkpoint"] += 1
            if how // 2 % 2:
                self.seen["process is killed within a checkpoint"] += 1
                self._kill_process(process)

    def _mishap(self, where: int, how: int) -> None:
        """A request of a checkpoint will fail."""
        alive = self.world.alive()
        if alive:
            alive[where % len(alive)].faults.append(("checkpoint", FAULTS[how % len(FAULTS)]))

    def _make(self, where: int, how: int) -> None:
        """`azureblob checkpoint`, at times in the middle of others' work."""
        stream = self.world.streams[where % len(self.world.streams)]
        process = self.world.start("checkpoint", partial(_make, stream=stream, rebuild=bool(how & 1)), how)
        if how & 6:
            process.finish()
            self._look(where, how)

    def end(self) -> None:
        """As without; then each stream is looked at."""
        super().end()  # type: ignore[safe-super]
        for number in range(len(self.world.streams)):
            if self.world.truth.violation is None:
                self._look(number, self.seed)


def _by_name(added: Added) -> str:
    return added[2].name


def _known(container: Any, stream: str) -> CommitLog:
    """The log as a new process knows it."""
    log = CommitLog(container, stream)
    log.refresh()
    return log


def _make(process: Any, stream: str, *, rebuild: bool) -> None:
    try:
        made = checkpoints.make(CommitLog(process.container, stream), rebuild=rebuild)
    except AzureBlobError as error:
        process.world.seen[f"command fails: {type(error).__name__}"] += 1
        return
    process.world.seen["checkpoint of the command"] += made.made


class CheckpointedHistory(WithCheckpoints, CommitHistory):
    """Of the commit protocol."""


class CheckpointedRevertHistory(WithCheckpoints, RevertHistory):
    """Of batches that are taken back."""

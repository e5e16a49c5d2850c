"""Histories of commits and reverts in which a stream is audited: beside all that happens, and with damage done to it.

Damage is done to the storage behind the back of the history while all processes rest, and undone after the audit: so
the audit must find just that damage, beside what it has found before. What audits find beside others' work is compared
with the truth.
"""

from __future__ import annotations

import copy
import re
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from azure_account.values import BlobAttributes
from azureblob_source.log import entry as log_entry
from azureblob_source.log.boundary import read_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, LogEntry, attempt_of
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import log_name
from azureblob_source.log.stored_entries import find_entry
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.audit.findings import Kind
from foundation.errors import NotFoundError, TransientError
from tests.azureblob_source.log.checkpoint_histories import CheckpointedHistory, CheckpointedRevertHistory
from tests.azureblob_source.log.relocating.restore_histories import CheckpointedRestoreHistory
from tests.histories.history import Event, History, draw_events
from tests.histories.world import BOX, Truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.container import BlobContainer
    from azureblob_source.maintenance.audit.findings import Audit, Finding

AUDITS = {"audit": 5, "spoil": 8}
NOW = timedelta(0)
LONG = timedelta(days=3650)
Found = set[tuple[Kind, str]]


class _Audited(History):
    """A history with audits and damage between its events."""

    came_back: set[str]
    """Blobs that were visible at any time after they had been revoked or removed."""

    def draw(self, draws: Random) -> list[Event]:
        """The events of the seed, and audits between them."""
        events, own = super().draw(draws), Random(self.seed + 1)  # type: ignore[safe-super]
        for event in draw_events(AUDITS, max(2, len(events) // 3), own):
            events.insert(own.randrange(len(events) + 1), event)
        return events

    @contextmanager
    def around(self) -> Iterator[None]:
        """It is noted which blobs come back."""
        self.came_back = set()
        truth: Any = self.world.truth
        changed = truth.changed

        def noted(name: str, data: bytes | None) -> None:
            changed(name, data)
            self.came_back |= truth.back if isinstance(self, AuditedRevertHistory) else truth.revoked

        truth.changed = noted
        with super().around():
            yield

    # --- audits beside others -----------------------------------------------------------------------------------------

    def _audit(self, where: int, how: int) -> None:
        """An audit, at times in the middle of others' work."""
        stream = self.world.streams[where % len(self.world.streams)]
        age = (LONG, timedelta(days=1), NOW)[how // 2 % 3]
        act = partial(self._check_audit, stream=stream, history=bool(how & 1), age=age)
        process, draws = self.world.start("audit", act, how), Random(how)
        for _ in range(draws.randrange(5)):
            if process.ended or not process.move(1 + draws.randrange(6)):
                return
            self._disturb(draws)
        if how & 8 and not process.ended:
            process.finish()

    def _disturb(self, draws: Random) -> None:
        """Others are at work while an audit rests."""
        name = draws.choice(["run", "run", "vacuum", "go"])
        if name != "vacuum" or not self.world.service.behaviour.create_only:
            getattr(self, f"_{name}")(draws.getrandbits(16), draws.getrandbits(16))

    def _check_audit(self, process: Any, stream: str, *, history: bool, age: timedelta) -> None:
        try:
            found = audit(CommitLog(process.container, stream), age, history=history)
        except NotFoundError as error:
            if "commit log" not in str(error):
                raise
            return
        except TransientError:
            self.seen["audit gives up"] += 1
            return
        self.seen["audit beside others"] += 1
        self.seen["audit finds it sound"] += found.sound
        self.seen["something is pending"] += bool(found.pending)
        self.seen["vacuum is pending"] += any(each.version is None for each in found.pending)
        self.seen["audit by a checkpoint"] += found.checkpoint is not None
        for each in found.findings:
            self.seen[f"found beside others: {each.kind}"] += 1
            if not self._is_true(each, stream, age):
                self.world.truth.fail(f"an audit finds what is not there: {each}")
        if found.renewed and not self._of_others():
            self.world.truth.fail(f"an audit finds changed metadata of {found.renewed} blobs")

    def _is_true(self, found: Finding, stream: str, age: timedelta) -> bool:
        """Whether a finding may be right, by the truth. At once, blobs are found too that are about to be deleted."""
        truth: Any = self.world.truth
        name, version, log = found.name, found.version, truth.log[stream]
        live = live_blobs(log[each] for each in sorted(log) if each >= truth.first[stream])
        match found.kind:
            case Kind.MISSING:
                lost = name in live and name not in truth.visible and name not in self.world.service.staged(BOX)
                return lost or self._by_hand(name)
            case Kind.REVOKED | Kind.UNNAMED:
                if found.kind is Kind.REVOKED and name not in live:
                    self.seen["found while it is still to be deleted"] += 1
                    by = re.search(r"version (\d+) has", found.what)
                    put = getattr(truth, "committed_at", {}).get((stream, int(by[1]) if by else -1))
                    if age == NOW or (put is not None and self.world.clock.now() >= put + age.total_seconds()):
                        return True
                return name in self.came_back or name in self._of_others() or self._by_hand(name)
            case Kind.FOREIGN | Kind.ALTERED:
                return name in self._of_others()
            case Kind.LOG:
                return version is not None and version < truth.first[stream]
        return False

    def _by_hand(self, name: str) -> bool:
        truth: Any = self.world.truth
        rows = getattr(truth, "blob_rows", {}).get(name, ())
        return any(row[:2] in truth.by_hand for row in rows)

    def _of_others(self) -> set[str]:
        """Blobs of another tool."""
        return set(getattr(self.world.truth, "foreign", ()))

    # --- damage -------------------------------------------------------------------------------------------------------

    def _spoil(self, where: int, how: int) -> None:
        """Damage a stream, audit it, and undo the damage."""
        stream = self.world.streams[where % len(self.world.streams)]
        draws, container = Random(how), self.world.container
        log = CommitLog(container, stream)
        if log.refresh() is None:
            return
        damages = sorted(DAMAGES)
        name = damages[where // 4 % len(damages)]
        history = name in ("damaged entry", "other log") or bool(how & 1)
        with self._behind_its_back():
            before = audit(CommitLog(container, stream), NOW, history=history)
            spoiled = _Spoiled(self.world, stream, draws, before)
            if before.blobs not in (None, len(spoiled.live)):
                self.world.truth.fail(f"{before.blobs} blobs are live by the audit, {len(spoiled.live)} by the entries")
            expected = DAMAGES[name](spoiled)
            if expected is None:
                return
            after = audit(CommitLog(container, stream), NOW, history=history)
        new = found_in(after) - found_in(before)
        gone = found_in(before) - found_in(after) if after.blobs is not None else set()
        self.seen[f"spoiled: {name}"] += 1
        self.world.trace(f"  {name} of {stream}: {sorted(new)}")
        if name == "rewritten":
            self.seen["rewritten is found"] += bool(new)
            expected = new & expected
        if name == "renewed" and after.renewed != before.renewed + 1:
            self.world.truth.fail(f"renewed: {before.renewed} before, {after.renewed} after")
        if name in ("lost entry", "damaged entry", "other log"):  # what it says of its blobs is not known any more
            known = {named for _, named in found_in(before)}
            new = {(kind, named) for kind, named in new if named not in known}
            gone = set()
        if new != expected or gone:
            self.world.truth.fail(
                f"{name}: an audit finds {sorted(new)}, not {sorted(expected)}, and not {sorted(gone)}"
            )

    @contextmanager
    def _behind_its_back(self) -> Iterator[None]:
        """The truth sees nothing of it, and the storage is then as it was."""
        service = self.world.service
        kept, truth, behaviour = service._containers[BOX], service._truth, service.behaviour
        service._containers[BOX] = type(kept)((name, copy.copy(blob)) for name, blob in kept.items())
        service._truth, service.behaviour = Truth(), replace(behaviour, create_only=False)
        try:
            yield
        finally:
            service._containers[BOX], service._truth, service.behaviour = kept, truth, behaviour


def found_in(found: Audit) -> Found:
    """The kinds and names of findings."""
    return {(each.kind, each.name) for each in found.findings}


class _Spoiled:
    """A stream that is damaged: what there is to choose from."""

    def __init__(self, world: Any, stream: str, draws: Random, before: Audit) -> None:
        self.world, self.stream, self.draws, self.before = world, stream, draws, before
        self.container: BlobContainer = world.container
        self.log = CommitLog(self.container, stream)
        self.entries = self.log.history()
        self.live = live_blobs(self.entries)
        wrong = {each.name for each in before.findings}
        self.visible = {
            name: blob
            for name, blob in sorted(self.live.items())
            if name not in wrong
            and (there := self.container.properties(name)) is not None
            and attempt_of(there.metadata) == blob.attempt
        }

    def a_blob(self) -> Any:
        """A live blob that is visible."""
        return self.draws.choice(list(self.visible.values())) if self.visible else None

    def put(self, name: str, data: bytes, attempt: str | None) -> None:
        """Put a blob."""
        self.container.put(name, data, BlobAttributes({} if attempt is None else {ATTEMPT: attempt}))

    def version_of(self, name: str) -> int:
        """The version of a live blob."""
        return max(entry.version for entry in self.entries for blob in entry.blobs if blob.name == name)


def _deleted(of: _Spoiled) -> Found | None:
    blob = of.a_blob()
    if blob is None:
        return None
    of.container.delete(blob.name)
    return {(Kind.MISSING, blob.name)}


def _cut(of: _Spoiled) -> Found | None:
    blob = of.a_blob()
    if blob is None:
        return None
    of.put(blob.name, b"x" * (blob.size + 1), blob.attempt)
    return {(Kind.ALTERED, blob.name)}


def _exchanged(of: _Spoiled) -> Found | None:
    """Another attempt's blob has the name. If the version is not known to be published, it stands in its way."""
    blob = of.a_blob()
    if blob is None:
        return None
    of.put(blob.name, b"x" * blob.size, "f" * 16)
    head = of.entries[-1]
    known = max(head.published_up_to, -1 if of.before.checkpoint is None else of.before.checkpoint)
    if of.version_of(blob.name) <= known:
        return {(Kind.ALTERED, blob.name)}
    return {(Kind.FOREIGN, blob.name)}


def _rewritten(of: _Spoiled) -> Found | None:
    """Of the same size and attempt, an hour later: found as far as a later put says that it was published before."""
    blob = of.a_blob()
    if blob is None:
        return None
    of.put(blob.name, b"y" * blob.size, blob.attempt)
    of.world.service._containers[BOX][blob.name].written += 3600.0
    return {(Kind.ALTERED, blob.name)}


def _renewed(of: _Spoiled) -> Found | None:
    """A tool has replaced the metadata."""
    blob = of.a_blob()
    if blob is None:
        return None
    found = of.world.service._containers[BOX][blob.name]
    if list(found.blocks) != blob.block_ids:
        return None
    found.attributes = BlobAttributes()
    return set()


def _copied(of: _Spoiled) -> Found | None:
    blob = of.a_blob()
    if blob is None:
        return None
    name = f"{of.stream}/copies/{blob.name.rsplit('/', 1)[1]}"
    of.put(name, b"x" * blob.size, blob.attempt)
    return {(Kind.DOUBLED, name)}


def _foreign(of: _Spoiled) -> Found | None:
    name = f"{of.stream}/{of.draws.choice(['a.txt', 'part-0.avro', '2013/01/31/12/00-01-12345678.avro'])}"
    of.put(name, b"x", None)
    return {(Kind.FOREIGN, name)}


def _hidden(of: _Spoiled) -> Found | None:
    """What readers of a listing skip is no finding."""
    of.put(f"{of.stream}/{of.draws.choice(['_tmp/a.avro', '.a.avro', 'folder'])}", b"", None)
    return set()


def _nested(of: _Spoiled) -> Found | None:
    """A stream below the stream has blobs of its own."""
    of.put(f"{of.stream}/below/2013/01/31/12/00-01-12345678.avro", b"x", "e" * 16)
    of.put(log_name(f"{of.stream}/below", 0), b"x", None)
    return set()


def _unnamed(of: _Spoiled) -> Found | None:
    name = f"{of.stream}/2013/01/31/12/00-01-12345678.avro"
    of.put(name, b"x", "e" * 16)
    return {(Kind.UNNAMED, name)}


def _back(of: _Spoiled) -> Found | None:
    """A blob is back whose entry was revoked or overwritten, or which a vacuum has removed."""
    removing = (find_entry(of.container, of.stream, each) for each in read_boundary(of.container, of.stream).removing)
    pending = {blob.name for entry in removing if entry is not None for blob in entry.blobs}
    named = {
        blob.name: blob
        for entry in of.world.truth.log[of.stream].values()
        for blob in entry.blobs
        if blob.name not in of.live and blob.name not in pending and of.container.properties(blob.name) is None
    }
    if not named:
        return None
    blob = of.draws.choice(list(named.values()))
    of.put(blob.name, b"x" * blob.size, blob.attempt)
    kept = any(each.name == blob.name for entry in of.entries for each in entry.blobs)
    return {(Kind.REVOKED if kept else Kind.UNNAMED, blob.name)}


def _lost_entry(of: _Spoiled) -> Found | None:
    """An entry is deleted: not the head, which nothing shows, nor one that a reader of the log cannot do without."""
    inner = of.entries[1:-1]
    if not inner:
        return None
    name = log_name(of.stream, of.draws.choice(inner).version)
    of.container.delete(name)
    return {(Kind.LOG, name)}


def _damaged_entry(of: _Spoiled) -> Found | None:
    inner = of.entries[:-1]
    if not inner:
        return None
    name = log_name(of.stream, of.draws.choice(inner).version)
    of.put(name, of.container.get(name).data[:-9], None)
    return {(Kind.LOG, name)}


def _other_log(of: _Spoiled) -> Found | None:
    inner = of.entries[1:-1]
    if not inner:
        return None
    entry: LogEntry = of.draws.choice(inner)
    name = log_name(of.stream, entry.version)
    of.put(name, log_entry.to_json(replace(entry, log_id="another")), None)
    return {(Kind.LOG, name)}


DAMAGES = {
    "deleted": _deleted,
    "cut": _cut,
    "exchanged": _exchanged,
    "rewritten": _rewritten,
    "renewed": _renewed,
    "copied": _copied,
    "foreign": _foreign,
    "hidden": _hidden,
    "nested": _nested,
    "unnamed": _unnamed,
    "back": _back,
    "lost entry": _lost_entry,
    "damaged entry": _damaged_entry,
    "other log": _other_log,
}


class AuditedHistory(_Audited, CheckpointedHistory):
    """Of the commit protocol."""


class AuditedRevertHistory(_Audited, CheckpointedRevertHistory):
    """Of batches that are taken back."""


class AuditedRestoreHistory(_Audited, CheckpointedRestoreHistory):
    """Of versions that are restored."""

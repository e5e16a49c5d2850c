"""Judges the blobs of a listing that are not live: what they are, by the entries, and whether they must not be there.

extra ─┬─ live by now, or of another stream ──────────► nothing
       ├─ an entry has added it, and it was undone ───► revoked, or still to be deleted
       ├─ an entry has added it under another name ───► doubled
       ├─ of another program ─────────────────────────► foreign
       └─ of this package, and no entry names it ─────► unnamed, once it is old
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from azureblob_source.log.checkpoint.manifest import REBUILD
from azureblob_source.log.entry import DISCARDED, LogEntry, attempt_of
from azureblob_source.log.naming import boundary_name, checkpoint_name, is_data
from azureblob_source.log.times import UNIX_EPOCH, microseconds, name_time
from azureblob_source.maintenance.audit.entry_facts import EntryFacts, Origin
from azureblob_source.maintenance.audit.findings import Finding, Kind, advice
from azureblob_source.maintenance.audit.log_view import AT_ONCE, stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.maintenance.audit.live_index import LiveIndex
    from azureblob_source.maintenance.audit.log_view import LogView
    from azureblob_source.maintenance.audit.looking import AuditContext

MOST_ENTRIES = 10_000
"""Entries that are read for extra blobs, unless all are."""
_SKEW = timedelta(days=1)


@dataclass(frozen=True)
class Extra:
    """A blob that is visible and not live under its name. attempt: as its metadata names it."""

    name: str
    attempt: str | None

    @property
    def may_be_named(self) -> bool:
        """Whether an entry can have added it."""
        return self.attempt is not None or is_data(self.name)


@dataclass
class Judgement:
    """What was found of extra blobs.

    awaited: by version of an entry, how many blobs it has still to delete. outdated: blobs that a vacuum has.
    young: blobs that no entry names yet.
    """

    findings: list[Finding] = field(default_factory=list)
    awaited: Counter[int] = field(default_factory=Counter)
    outdated: int = 0
    young: int = 0


@dataclass
class EarlierEntries:
    """The entries before a view's head, read from the newest back as far as it takes."""

    context: AuditContext
    facts: EntryFacts = field(default_factory=EntryFacts)
    read: int = 0

    def read_for(self, extra: Sequence[Extra], view: LogView, most: int = MOST_ENTRIES) -> None:
        """Read until all blobs are explained, or older entries cannot name one of them."""
        wanted = [each for each in extra if each.may_be_named]
        until, first = view.head.version, view.boundary.first
        while wanted and until >= first and view.head.version - until < most:
            start = max(first, until - AT_ONCE + 1)
            found = stored(self.context.log, range(start, until + 1))
            entries = [entry for entry in found if isinstance(entry, LogEntry) and entry.log_id == view.head.log_id]
            self.facts.add(entries)
            self.facts.whole = self.facts.whole and len(entries) == len(found)
            self.read, until = self.read + len(entries), start - 1
            known = origins_of(self.facts, wanted)
            wanted = [each for each in wanted if each not in known and not _is_before(entries, each)]


def _is_before(entries: Sequence[LogEntry], extra: Extra) -> bool:
    """Whether all that comes before these entries was committed before the blob was begun."""
    begun = name_time(extra.name)[1]
    oldest = min((datetime.fromisoformat(entry.timestamp) for entry in entries), default=UNIX_EPOCH)
    return begun is not None and microseconds(oldest + _SKEW) < begun


def origins_of(facts: EntryFacts, extra: Sequence[Extra]) -> dict[Extra, Origin]:
    """The entries that have added these blobs, or those that they are copies of."""
    attempts = [each.attempt for each in extra if each.attempt is not None]
    named: dict[str, list[Origin]] = defaultdict(list)
    staged: dict[str | None, list[Origin]] = defaultdict(list)
    for origin in facts.origins([each.name for each in extra], attempts):
        named[origin.name].append(origin)
        staged[origin.attempt].append(origin)
    found = {}
    for each in extra:
        own = [origin for origin in named[each.name] if each.attempt in (None, origin.attempt)]
        copied = [] if each.attempt is None else staged[each.attempt]
        if own or copied:
            found[each] = (own or copied)[-1]
    return found


def judge(
    context: AuditContext, extra: Sequence[Extra], view: LogView, index: LiveIndex, facts: EntryFacts
) -> Judgement:
    """Judge extra blobs, by the log as of `view`, which was read after the listing. index: of its live blobs."""
    judging = _Judging(context, view, facts.whole)
    removing = _being_removed(context, view)
    left = [each for each in extra if each.name not in removing and not _is_live(each, index)]
    origins = origins_of(facts, left)
    ages = context.each(lambda each: _age(context, each), left)
    for each, age in zip(left, ages, strict=True):
        if age is not None:
            taken = index.place(each.name)
            of_version = None if taken is None else int(index.versions[taken])
            judging.judge(each, origins.get(each), age, of_version)
    return judging.judged


def _age(context: AuditContext, extra: Extra) -> float | None:
    """Seconds since the blob was written; None if it is not there any more."""
    there = context.log.container.properties(extra.name)
    if there is None or attempt_of(there.metadata) != extra.attempt:
        return None
    return context.log.container.age(extra.name)


def _is_live(extra: Extra, index: LiveIndex) -> bool:
    place = index.place(extra.name)
    return place is not None and extra.attempt in (None, index.blob(place, "").attempt)


def _being_removed(context: AuditContext, view: LogView) -> set[str]:
    """Names of blobs that a vacuum is deleting, or has begun to delete."""
    entries = stored(context.log, sorted(view.boundary.removing))
    return {blob.name for entry in entries if isinstance(entry, LogEntry) for blob in entry.blobs}


@dataclass
class _Judging:
    """Judges blobs that are not live by a view. whole: all entries that matter were read."""

    context: AuditContext
    view: LogView
    whole: bool
    judged: Judgement = field(default_factory=Judgement)

    def judge(self, extra: Extra, origin: Origin | None, age: float, taken: int | None) -> None:
        """Judge one that is visible. taken: the version of the live blob whose name it has, None if there is none."""
        own = origin is not None and origin.name == extra.name
        if taken is not None and not own:
            self._judge_occupant(extra, taken)
        elif origin is None:
            self._judge_unnamed(extra, age)
        elif origin.undone_by is not None:
            self._judge_undone(extra, origin, origin.undone_by)
        elif origin.rows_of < self.view.boundary.first:
            self._judge_outdated(extra, origin)
        elif own:
            self._judge_checkpoint(extra, origin)
        else:
            self._find(Kind.DOUBLED, extra, origin.version, f"it is a copy of {origin.name}")

    def _judge_occupant(self, extra: Extra, version: int) -> None:
        """Judge a blob with the name of a live one. If that was published, it was looked at as that blob."""
        if version > self.view.published:
            what = f"it has the name of a blob of version {version}, which cannot be published therefore"
            self._find(Kind.FOREIGN, extra, version, what)

    def _judge_unnamed(self, extra: Extra, age: float) -> None:
        if extra.attempt is None:
            what = "it has no attempt in its metadata, so another program has written it, and no entry names it"
            self._find(Kind.FOREIGN, extra, None, what)
        elif extra.attempt == DISCARDED or not self.context.is_old(age):
            self.judged.young += 1
        else:
            why = "its batch was never committed"
            why = f"a vacuum has removed it, or {why}" if self.view.boundary.first > 0 else why
            self._find(Kind.UNNAMED, extra, None, f"this package has written it, and no entry names it: {why}")

    def _judge_undone(self, extra: Extra, origin: Origin, by: int) -> None:
        if by > self.view.published and not self.context.is_old(self.context.age_of_entry(by)):
            self.judged.awaited[by] += 1
        elif origin.name != extra.name:
            what = f"it is a copy of {origin.name}, which version {by} has revoked or removed"
            self._find(Kind.REVOKED, extra, origin.version, what, "Delete it.")
        else:
            what = f"version {by} has revoked or removed it, and it is visible"
            self._find(
                Kind.REVOKED, extra, origin.version, what, "" if origin.attempt == extra.attempt else "Delete it."
            )

    def _judge_outdated(self, extra: Extra, origin: Origin) -> None:
        """Judge a blob with moved rows, all of which a vacuum has removed: it deletes the blob last."""
        if not self.context.is_old(self.context.age_of(boundary_name(self.context.log.stream))):
            self.judged.outdated += 1
            return
        what = "a vacuum has removed all its rows, which were moved to it, and it is visible"
        self._find(Kind.REVOKED, extra, origin.version, what, "The next vacuum deletes it.")

    def _judge_checkpoint(self, extra: Extra, origin: Origin) -> None:
        """Judge a blob that entries say is live: it is newer, or the checkpoint lacks it, or entries are lost."""
        version = self.view.checkpoint
        if self.whole and version is not None and origin.version <= version:
            name = checkpoint_name(self.context.log.stream, version)
            what = f"it has not got the blob {extra.name}, which is live by version {origin.version}"
            self.judged.findings.append(Finding(Kind.LOG, name, version, what, REBUILD))

    def _find(self, kind: Kind, extra: Extra, version: int | None, what: str, step: str = "") -> None:
        step = step or advice(kind, self.context.place)
        self.judged.findings.append(Finding(kind, extra.name, version, what, step))

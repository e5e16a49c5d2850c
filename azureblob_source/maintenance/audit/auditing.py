"""Audits a stream: compares the live blobs of its log with its listing, then looks again at what differs.

    log ─► listing ─► look at live blobs that differ ─► log again ─► look at other blobs ─► findings, what is pending

Why nothing is found that is not there, whatever writers and maintenance do meanwhile (each clause is a test):
  * A blob is missing or altered if it is live before it is looked at and after, and published before. So it was live
    all the time between: what removes it is in the log before it is deleted.
  * A blob must not be visible if the log says so before it is looked at, and also that whoever had to delete it has:
    what removes it is published. Else it is pending, until that is older than `older_than`.
  * With `at-least-once` tasks publish blobs before the log names them. So one that no entry names is found once it is
    older than `older_than`.
  * A version is missing from the log if later ones are there, and the retention boundary is below it still.

No byte of data is read; `publication.py` says what the times of blobs show.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from azureblob_source.log.entry import attempt_of
from azureblob_source.log.naming import is_batch_log
from azureblob_source.maintenance.audit.extra_blobs import EarlierEntries, Extra, Judgement, judge
from azureblob_source.maintenance.audit.findings import Audit, Finding, Kind
from azureblob_source.maintenance.audit.kept_blobs import kept_findings
from azureblob_source.maintenance.audit.live_index import LiveIndex, Sweep, empty
from azureblob_source.maintenance.audit.log_doubts import doubts_of, findings_without_head, log_findings
from azureblob_source.maintenance.audit.log_faults import Chain
from azureblob_source.maintenance.audit.log_view import WholeLog, stored, view_of
from azureblob_source.maintenance.audit.looking import MOST, AuditContext, LiveBlob, look_at
from azureblob_source.maintenance.audit.publication import written_again
from azureblob_source.maintenance.audit.unfinished import still_to_delete, unpublished, vacuuming
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, CorruptError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta

    from azure_account.values import BlobProperties
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.maintenance.audit.entry_facts import EntryFacts
    from azureblob_source.maintenance.audit.log_view import LogView
    from azureblob_source.maintenance.audit.looking import Look

_PAGE = 5000


def audit(
    log: CommitLog,
    older_than: timedelta,
    *,
    history: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> Audit:
    """Compare a stream with its log. Changes nothing.

    older_than: the age from which on what is in doubt counts as a finding; longer than any batch takes.
    history: read all entries that are kept, check each, and know the live blobs by them alone; else the newest
      checkpoint and the entries after it.
    progress: called with the number of names listed, and of entries read, since its last call.

    `NotFoundError` if there is no log. `ConfigurationError` if it needs a newer release, or is a batch log.
    `ConflictError` if the stream is deleted meanwhile. Nothing is said then.
    """
    if is_batch_log(log.stream):
        cause, step = "a batch log has no blobs of its own", "Audit the streams that its batches go to."
        raise ConfigurationError("audit", log.place, cause, step)
    return _Auditing(AuditContext(log, older_than.total_seconds()), history, progress).run()


@dataclass
class _Auditing:
    """One audit, and what it has found so far."""

    context: AuditContext
    history: bool
    progress: Callable[[int], object]
    findings: list[Finding] = field(default_factory=list)
    more: Counter[str] = field(default_factory=Counter)
    renewed: int = 0
    read: int = 0
    not_adopted: int = 0
    whole: WholeLog | None = None

    def run(self) -> Audit:
        """Audit the stream."""
        log = self.context.log
        try:
            view = self._view()
        except (ConflictError, CorruptError, NotFoundError) as error:
            return self._log_alone(error)
        sweep = Sweep(LiveIndex(view.live), log.stream)
        self._list(sweep)
        doubtful = self._doubtful(sweep, view)
        extra = self._extra(sweep, view)
        looks = look_at(self.context, doubtful)
        later, index = view, sweep.index
        if looks or extra or doubts_of(sweep, view, view.head.version):
            later = self._view()
            index = LiveIndex(later.live)
        self._check_chain(later)
        log_faults = log_findings(self.context, doubts_of(sweep, later, view.head.version), later)
        self.findings += log_faults.findings
        if log_faults.beyond_head:
            return self._of_log(sweep, later.boundary.first, later.published)
        self._confirm(looks, index)
        self._check_kept(sweep, view)
        judged = self._judge(extra, later, index)
        return self._result(sweep, later, index, judged)

    def _view(self) -> LogView:
        """The log as of now."""
        if not self.history:
            return view_of(self.context.log)
        self.whole = self.whole or WholeLog(self.context.log, self.context.place, self.progress)
        return self.whole.view()

    def _list(self, sweep: Sweep) -> None:
        blobs = self.context.log.container.list(f"{sweep.stream}/")
        for page in _pages(blobs):
            sweep.page(page)
            self.progress(len(page))

    def _check_chain(self, view: LogView) -> None:
        """Check the entries that were read, and the oldest, which shows the identity of the log."""
        if self.whole is not None and self.whole.chain is not None:
            self.findings += self.whole.chain.findings
            self.read += self.whole.chain.read
            return
        chain = Chain(self.context.log.stream, self.context.place, view.head.log_id)
        if view.boundary.first == 0 and view.entries[0].version > 0:
            oldest = stored(self.context.log, [0])[0]
            if oldest is not None:
                chain.add(0, oldest)
        for entry in view.entries:
            chain.add(entry.version, entry)
        self.findings += chain.findings
        self.read += chain.read

    def _doubtful(self, sweep: Sweep, view: LogView) -> list[LiveBlob]:
        """The live blobs of published entries that the listing does not show as they must be."""
        index, until = sweep.index, view.published
        again = set(written_again(sweep, _published_at(sweep, self._said(view)), until).tolist())
        kinds = {Kind.MISSING: sweep.missing(until).tolist(), Kind.ALTERED: sorted({*sweep.odd, *again})}
        for kind, places in kinds.items():
            self.more[kind] += max(0, len(places) - MOST)
        chosen = [place for places in kinds.values() for place in places[:MOST]]
        stream, versions = self.context.log.stream, index.versions.tolist()
        return [
            LiveBlob(index.blob(each, stream), versions[each], versions[each] <= until, each in again)
            for each in chosen
        ]

    def _said(self, view: LogView) -> dict[int, int]:
        """What the entries that were read say, by their versions: up to which one all is published."""
        read = {entry.version: entry.published_up_to for entry in view.entries}
        return read if self.whole is None else {**self.whole.put_for, **read}

    def _extra(self, sweep: Sweep, view: LogView) -> list[Extra]:
        """The blobs that are not live, and those that have the name of an unpublished one and are not it."""
        table = sweep.extra()
        if view.head.adopts:
            self.not_adopted = len(table)
            return []
        if len(table) > MOST:
            foreign = pc.sum(pc.is_null(table["attempt"][MOST:])).as_py() or 0
            self.more[Kind.FOREIGN] += foreign
            self.more[Kind.UNNAMED] += len(table) - MOST - foreign
        extra = [Extra(row["name"], row["attempt"]) for row in table.slice(0, MOST).to_pylist()]
        index = sweep.index
        taken = [index.blob(place, "") for place in sweep.odd if index.versions[place] > view.published]
        return [*extra, *(self._occupant(blob.name) for blob in taken[:MOST])]

    def _occupant(self, name: str) -> Extra:
        there = self.context.log.container.properties(name)
        return Extra(name, None if there is None else attempt_of(there.metadata))

    def _confirm(self, looks: Sequence[Look], index: LiveIndex) -> None:
        """Keep the findings of blobs that are live still."""
        for look in looks:
            blob = look.of.blob
            place = index.place(blob.name)
            if place is None or index.blob(place, "").attempt != blob.attempt:
                continue
            self.renewed += look.renewed
            self.findings += [] if look.finding is None else [look.finding]

    def _judge(self, extra: Sequence[Extra], view: LogView, index: LiveIndex) -> Judgement:
        if not extra:
            return Judgement()
        return judge(self.context, extra, view, index, self._facts_of(extra, view))

    def _check_kept(self, sweep: Sweep, view: LogView) -> None:
        self.findings += kept_findings(self.context, sweep, view, partial(self._facts_of, view=view))

    def _facts_of(self, blobs: Sequence[Extra], view: LogView) -> EntryFacts:
        """What entries say of these blobs."""
        if self.whole is not None:
            return self.whole.facts
        earlier = EarlierEntries(self.context)
        earlier.read_for(blobs, view)
        self.read += earlier.read
        return earlier.facts

    def _result(self, sweep: Sweep, view: LogView, index: LiveIndex, judged: Judgement) -> Audit:
        lost, pending = unpublished(self.context, view)
        pending += still_to_delete(self.context, judged.awaited)
        table = index.table
        return Audit(
            stream=self.context.log.stream,
            first=view.boundary.first,
            version=view.head.version,
            published=view.published if pending or lost else view.head.version,
            blobs=len(table),
            rows=pc.sum(table["rows"]).as_py() or 0,
            bytes=pc.sum(table["size"]).as_py() or 0,
            findings=(*self.findings, *lost, *judged.findings),
            pending=(*vacuuming(view, judged.outdated), *pending),
            more=dict(+self.more),
            renewed=self.renewed,
            young=judged.young + self.not_adopted,
            kept=len(sweep.kept),
            listed=sweep.listed,
            read=self.read,
            checkpoint=view.checkpoint,
        )

    def _log_alone(self, error: AzureBlobError) -> Audit:
        """What is wrong with a log of which it is not known what is live. The error itself, if nothing is found."""
        log = self.context.log
        sweep = Sweep(LiveIndex(empty()), log.stream)
        self._list(sweep)
        first, findings, read = findings_without_head(self.context, sweep)
        if not findings:
            raise error
        self.findings, self.read = findings, read
        return self._of_log(sweep, first, first - 1)

    def _of_log(self, sweep: Sweep, first: int, published: int) -> Audit:
        """The result if it is not known what is live."""
        return Audit(
            self.context.log.stream, first, max(sweep.versions), published, None, None, None, tuple(self.findings),
            listed=sweep.listed, read=self.read,
        )  # fmt: skip


def _published_at(sweep: Sweep, said: dict[int, int]) -> list[tuple[int, float]]:
    """Versions up to which all was published, with the times of the entries that say so."""
    put = zip(sweep.versions, sweep.put_at, strict=True)
    return [(said[version], at) for version, at in put if version in said]


def _pages(blobs: Iterable[BlobProperties]) -> Iterator[list[BlobProperties]]:
    names = iter(blobs)
    while page := list(islice(names, _PAGE)):
        yield page

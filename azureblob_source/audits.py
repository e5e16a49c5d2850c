"""Audit a stream from a program: whether each committed row is in exactly one visible blob, unaltered."""

from __future__ import annotations

from datetime import timedelta

from azure_account.location import Location
from azureblob_source.address import stream_of
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.audit.findings import Audit, Finding, Kind, Pending
from foundation.arguments import Wait, checked

_DAY = 24 * 3600.0


@checked
def audit_stream(where: Location, *, older_than: Wait = _DAY, history: bool = False) -> Audit:
    """Compare a stream with its log, as `python -m azureblob_source audit` does. No data is read, nothing is changed.

    where: the stream, `container/stream`, and the account.
    older_than: seconds after which a blob that no entry names counts as a finding, and what its writer has still to
    delete; longer than any batch takes.
    history: read and check all entries that are kept; else the newest checkpoint of the log says what is live.

    Writers, readers and maintenance may work meanwhile. `NotFoundError` if the stream has no log; `ConflictError` if it
    is deleted meanwhile.
    """
    stream = stream_of(where.path, where)
    return audit(CommitLog(where.open(), stream), timedelta(seconds=older_than), history=history)


__all__ = ["Audit", "Finding", "Kind", "Pending", "audit_stream"]

"""Reads what `status` shows. It only reads: it creates no table, no blob and no lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordination.cli.report import JobSnapshot, job_report, leader_report
from coordination.leadership.lease_document import from_json
from coordination.names import JOBS, LEADERS, job_of, names_of
from coordination.processors.processor_table import ProcessorTable
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from azure_account.account import StorageAccount
    from azure_account.container import BlobContainer
    from coordination.cli.report import JobReport, LeaderReport
    from coordination.processors.coordinator_state import ListedRow

_ATTEMPTS = 3
"""Readings until document and rows are of one moment. A document changes some times in a rebalancing, then rests."""
_SHOWN = 10


def read_job(account: StorageAccount, container: str, job: str, death: float) -> JobReport:
    """The report of a job. `NotFoundError` for an unknown one, which names those that there are."""
    names, box = names_of(container, job), account.container(container)
    table = ProcessorTable(account.table(names.processors))
    rows: tuple[ListedRow, ...] | None = None
    before, seen = "", read_blob(box, names.blob)
    for _ in range(_ATTEMPTS):
        if seen is None or seen[1] == before:
            break
        rows, before = _rows(table), seen[1]
        seen = read_blob(box, names.blob)
    if seen is None:
        raise _unknown(box, f"job {job}", JOBS, "Its jobs are")
    found = seen[0]
    return job_report(
        job, f"{container}/{names.blob}", JobSnapshot(found.document, found.leased, found.changed, rows), death
    )


def read_leader(account: StorageAccount, container: str, blob: str) -> LeaderReport:
    """The report of a blob that a `LeaderElector`, a `LeaseLock` or `run` uses. `NotFoundError` if there is none."""
    box = account.container(container)
    seen = read_blob(box, blob)
    if seen is None:
        raise _unknown(box, f"leased blob {blob}", LEADERS, f"Below {LEADERS} are")
    return leader_report(f"{container}/{blob}", seen[0])


def read_blob(container: BlobContainer, blob: str) -> tuple[JobSnapshot, str] | None:
    """What a leased blob has, without rows, and its ETag; None if there is no blob."""
    try:
        found = container.get(blob)
    except NotFoundError:
        return None
    age = container.age(blob)
    if age is None:
        return None
    document = from_json(found.data, f"{container.name}/{blob}")
    return JobSnapshot(document, found.properties.leased, max(0.0, age)), found.properties.etag


def _rows(table: ProcessorTable) -> tuple[ListedRow, ...] | None:
    try:
        return table.listed()
    except NotFoundError:
        return None


def _unknown(container: BlobContainer, what: str, folder: str, there: str) -> NotFoundError:
    """The error for a job or a blob that does not exist. `NotFoundError` of the container if that does not."""
    blobs = [blob.name for blob in container.list(folder)]
    names = [job for blob in blobs if (job := job_of(blob)) is not None] if folder == JOBS else blobs
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    step = f"{there} {shown}." if names else "No process has started yet, or it uses another container or name."
    return NotFoundError("Read the status of", f"{what} in {container.url}", "it does not exist", step)

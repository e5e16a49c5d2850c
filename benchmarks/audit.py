"""Audit of a stream of a million blobs in an account in memory: requests, seconds, memory.

What a network adds is not measured. As with Azure, an answer to a LIST has up to 5,000 names.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from azure_account.memory.faults import FaultInjector
from azure_account.values import BlobAttributes
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, Totals, to_json
from azureblob_source.log.naming import log_name
from azureblob_source.maintenance.audit.auditing import audit
from benchmarks.peak import peak, reset_peak
from benchmarks.planning import CONTAINER, STREAM, minute_entry, new_account, put_many_blobs
from benchmarks.report import Report

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

_BYTES = bytes(30_000)


def auditing(versions: int = 31_250, each: int = 32) -> Report:
    """One table: a sound stream, by its checkpoint and by all entries; the same with two faults."""
    account = new_account()
    put_many_blobs(account, versions, each)
    container, totals = account.container(CONTAINER), Totals()
    for version in track(range(versions), "blobs", console=Console(stderr=True), transient=True):
        entry = minute_entry(version, each)
        totals = totals.plus(entry.blobs)
        container.put(log_name(STREAM, version), to_json(replace(entry, totals=totals)))
        for blob in entry.blobs:
            container.put(blob.name, _BYTES, BlobAttributes({ATTEMPT: blob.attempt}))
    lines = [
        _audited(account, f"{versions * each:,} blobs, {versions:,} versions", 0),
        _audited(account, "the same, --history", 0, history=True),
    ]
    container.delete(minute_entry(versions // 2, each).blobs[0].name)
    container.put(f"{STREAM}/P000/x.avro", b"x")
    lines.append(_audited(account, "a blob is missing, one is foreign", 2))
    return Report("Audit of a stream", lines, "MiB: above the account's own")


def _audited(account: MemoryAccount, name: str, faults: int, *, history: bool = False) -> dict[str, str | float]:
    counter = FaultInjector()
    log = CommitLog(account.restarted(counter).container(CONTAINER), STREAM)
    gc.collect()
    before, begun, used = reset_peak(), time.perf_counter(), time.process_time()
    found = audit(log, timedelta(days=1), history=history)
    taken, processor = time.perf_counter() - begun, time.process_time() - used
    if len(found.findings) != faults:
        raise AssertionError(f"{name}: {found.findings[:5]}")
    return {
        "stream": name,
        "names": found.listed,
        "entries": found.read,
        "requests": counter.count,
        "s": taken,
        "processor s": processor,
        "MiB": peak() - before,
    }

"""The command line's output for programs: JSON documents."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from azure_account.cli.json_lines import jsonable
from azureblob_source.log import entry as log_entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureblob_source.log.entry import LogEntry
    from azureblob_source.maintenance.inventory import StreamSummary
    from azureblob_source.maintenance.repair import RepairPlan, RepairResult
    from azureblob_source.maintenance.reverting import RevertPlan
    from azureblob_source.maintenance.vacuum import VacuumPlan, VacuumResult


def streams_json(container: str, streams: Iterable[StreamSummary]) -> dict[str, object]:
    """The document of `ls`."""
    return {
        "container": container,
        "streams": [
            {
                "name": each.name,
                "log": each.version is not None,
                "blobs": each.blobs,
                "rows": each.rows,
                "bytes": each.bytes,
                "firstVersion": each.first,
                "version": each.version,
                "changed": each.changed,
                "strangers": list(each.strangers),
            }
            for each in streams
        ],
    }


def entry_json(entry: LogEntry) -> dict[str, object]:
    """One line of `log`: the entry with its blobs and writers as numbers."""
    stored = stored_json(entry)
    kept = ("version", "timestamp", "operation", "transaction", "epoch", "replaces", "metrics")
    found = {key: stored[key] for key in kept}
    counts = {
        "blobs": len(entry.blobs),
        "rows": entry.rows,
        "bytes": sum(blob.size for blob in entry.blobs),
        "removed": len(entry.removed),
    }
    return {**found, **counts, "writers": len(entry.writers)}


def stored_json(entry: LogEntry) -> dict[str, Any]:
    """The whole entry, as it is stored."""
    return json.loads(log_entry.to_json(entry))


def vacuum_json(plan: VacuumPlan, done: VacuumResult | None) -> dict[str, object]:
    """The document of `vacuum`."""
    document: dict[str, object] = {
        "stream": plan.stream,
        "plan": {
            "entries": len(plan.outdated),
            "firstVersion": plan.boundary.first,
            "newFirstVersion": plan.first,
            "version": plan.last,
            "blobs": 0 if plan.log_only else plan.blobs,
            "rows": 0 if plan.log_only else plan.rows,
            "bytes": 0 if plan.log_only else plan.bytes,
            "leftovers": len(plan.interrupted),
            "strays": len(plan.strays),
        },
        "done": None,
    }
    if done is not None:
        document["done"] = {"entries": done.entries, "blobs": done.blobs, "foreign": list(done.foreign)}
    return document


def revert_json(plan: RevertPlan, *, done: bool) -> dict[str, object]:
    """The document of `revert`."""
    streams = {
        name: {
            "versions": [entry.version for entry in entries],
            "rows": sum(entry.rows for entry in entries),
            "blobs": sum(len(entry.blobs) for entry in entries),
        }
        for name, entries in plan.of_streams().items()
    }
    return {
        "query": plan.last.id,
        "after": plan.last.version,
        "batches": plan.batches,
        "streams": streams,
        "done": done,
    }


def repair_json(plan: RepairPlan, done: RepairResult | None) -> dict[str, object]:
    """The document of `repair`."""
    return {
        "streams": list(plan.streams),
        "unfinished": [
            {
                "stream": each.stream,
                "version": each.entry.version,
                "blobs": len(each.entry.blobs),
                "missing": list(each.missing),
                "lost": list(each.lost),
                "stillThere": list(each.still_there),
            }
            for each in plan.unpublished
        ],
        "leftovers": [{"name": each.name, "since": jsonable(each.since)} for each in plan.leftovers],
        "recent": [{"name": each.name, "since": jsonable(each.since)} for each in plan.recent],
        "revived": [each.name for each in plan.revived],
        "strangers": {stream: list(names) for stream, names in plan.strangers.items()},
        "unreadable": dict(plan.unreadable),
        "done": None if done is None else dataclasses.asdict(done),
    }

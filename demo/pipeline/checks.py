"""What is in storage at the end, beside what must be there: for readers of the log, and for readers that list.

All rows of a batch must have been joined with one version of the planes, and no batch with an older one than a batch
before.
"""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import fastavro

from adjunct_store.spark import JoinSettings, join
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.names import StoreNames
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.live_state import blobs_live_at
from coordination.names import names_of
from demo.pipeline.arrivals import SEATS_PER_REVISION
from demo.pipeline.operators import DAY
from demo.pipeline.places import STREAMS
from state_backup import Location, plan_sweep, sweep, verify
from tools.reporting import begun_twice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from azure.storage.blob import ContainerClient
    from pyspark.sql import SparkSession

    from demo.pipeline.arrivals import Arrivals, Joined
    from demo.pipeline.places import Places
    from demo.pipeline.processes import Drivers

_USER_MESSAGE = 0


@dataclass(frozen=True)
class Finding:
    """One check: what was counted, and whether it is as it must be."""

    what: str
    found: str
    is_right: bool


@dataclass(frozen=True)
class Stored:
    """The rows of `joined`, each with the version of its batch, or None if the reader lists; and those of `days`.

    planes: the seats in the newest version of the store, by tail number; None if the reader lists.
    """

    reader: str
    joined: list[tuple[int | None, dict[str, Any]]]
    days: list[dict[str, Any]]
    planes: dict[str, int] | None = None


def by_log(spark: SparkSession, places: Places) -> Stored:
    """What Spark reads by the logs, and in the store."""

    def read(name: str, **options: str) -> list[Any]:
        reader = spark.read.format("azureblob").options(**places.account, **options)
        return reader.load(places.stream(name).where).collect()

    joined = [(row["_version"], bytes(row["value"])) for row in read("joined", metadataColumns="version")]
    days = [row.asDict() for row in read("days")]
    known = spark.read.parquet(str(places.arrivals / "planes")).select("tailnum").distinct()
    found = join(known, places.planes, on=["tailnum"], settings=JoinSettings(cache_dir=places.disk / "cache"))
    planes = {row["tailnum"]: row["seats"] for row in found.collect()}
    return Stored("by the log", list(_messages(joined)), days, planes)


def by_listing(container: ContainerClient) -> Stored:
    """What a reader finds that lists the blobs and knows nothing of the logs."""
    joined = [(None, row["value"]) for row in _listed(container, "joined")]
    return Stored("by listing", list(_messages(joined)), list(_listed(container, "days")))


def _messages(envelopes: Iterable[tuple[int | None, bytes]]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    for version, value in envelopes:
        if value[0] == _USER_MESSAGE:
            yield version, json.loads(value[1:])


def _listed(container: ContainerClient, stream: str) -> Iterator[dict[str, Any]]:
    for blob in container.list_blobs(f"streams/{stream}/"):
        if "/_" not in blob.name:
            yield from fastavro.reader(io.BytesIO(container.download_blob(blob.name).readall()))


def check_rows(stored: Stored, arrivals: Arrivals) -> list[Finding]:
    """Each flight once in `joined`, as it must be; each day once in `days`, with the sums of what is in `joined`."""
    expected = arrivals.expected()
    ids = Counter(row.get("id") for _, row in stored.joined)
    lost, doubled = len(expected.keys() - ids.keys()), sum(count - 1 for count in ids.values())
    wrong = sum(not _is_right(row, expected.get(row.get("id", -1))) for _, row in stored.joined)
    days = Counter((row["origin"], _millis(row["day"])) for row in stored.days)
    sums = _sums(row for _, row in stored.joined)
    found = {(row["origin"], _millis(row["day"])): (row["flights"], row["seats"], row["wind"]) for row in stored.days}
    reader = stored.reader
    return [
        Finding(f"lost {reader}", f"{lost} of {len(expected):,}", lost == 0),
        Finding(f"doubled {reader}", str(doubled), doubled == 0),
        Finding(f"other than the batch computation, {reader}", str(wrong), wrong == 0),
        Finding(f"days {reader}", f"{len(found)} of {len(sums)}", found == sums and max(days.values(), default=0) == 1),
    ]


def _is_right(row: dict[str, Any], expected: Joined | None) -> bool:
    if expected is None:
        return False
    revision = row.get("revision")
    seats = None if expected.seats is None or revision is None else expected.seats + SEATS_PER_REVISION * revision
    found = tuple(row.get(name) for name in ("origin", "time", "tailnum", "wind", "seats"))
    return found == (expected.origin, expected.time, expected.tailnum, expected.wind, seats) and (
        (revision is None) == (expected.seats is None)
    )


def _sums(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, int, float | None]]:
    sums: dict[tuple[str, int], tuple[int, int, float | None]] = {}
    for row in rows:
        time = row.get("time") or 0
        key = (row.get("origin") or "", time - time % DAY)
        flights, seats, wind = sums.get(key, (0, 0, None))
        winds = [each for each in (wind, row.get("wind")) if each is not None]
        sums[key] = (flights + 1, seats + (row.get("seats") or 0), max(winds, default=None))
    return sums


def _millis(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def check_planes(stored: Stored, arrivals: Arrivals) -> tuple[list[Finding], dict[int, int]]:
    """Whether the store has the last revision of each plane, and each batch was joined with one version of it.

    Returns the findings, and by version of the log the lowest revision of the store that explains its rows.
    """
    numbers, latest = arrivals.numbers, arrivals.latest_seats()
    bounds: dict[int, tuple[int, float]] = defaultdict(lambda: (0, math.inf))
    impossible = 0
    for version, row in stored.joined:
        number, revision = numbers.get(row.get("tailnum") or ""), row.get("revision")
        if version is None or revision is None:
            continue
        if number is None or not arrivals.has_revision(number, revision):
            impossible += 1
            continue
        low, high = bounds[version]
        bounds[version] = (max(low, revision), min(high, arrivals.next_revision(number, revision) - 1))
    mixed, least, read = 0, 0, {}
    for version, (low, high) in sorted(bounds.items()):
        least = max(least, low)
        mixed += least > high
        read[version] = least
    text = f"{len(bounds)} batches read revisions {min(read.values(), default=0)} to {least}; {mixed} read two"
    differ = sum(latest.get(plane) != seats for plane, seats in (stored.planes or {}).items())
    differ += len(latest.keys() - (stored.planes or {}).keys())
    return [
        Finding("revisions of planes that cannot be", str(impossible), impossible == 0),
        Finding("one version of the planes in each batch", text, mixed == 0 and least > 0),
        Finding("planes that are not the newest ones", f"{differ} of {len(latest):,}", differ == 0),
    ], read


def check_drivers(drivers: Drivers) -> list[Finding]:
    """Whether drivers have ended only when they were killed or told to, and no task has begun twice in one epoch."""
    ended = [f"{each.name} with {each.process.returncode}" for each in drivers.ended_by_themselves]
    twice = sorted(f"{task} in {epoch}" for task, epoch in begun_twice(drivers.lives))
    return [
        Finding("drivers that ended by themselves", ", ".join(ended) or "0", not ended),
        Finding("tasks that began twice in one epoch", ", ".join(twice) or "0", not twice),
    ]


def check_blobs(places: Places, environment: Mapping[str, str]) -> list[Finding]:
    """Whether every blob is accounted for, after the commands of an operator."""
    failures = [
        _failure("azureblob_source", "repair", where, "--older-than", "0s", "--leftovers", "--yes", env=environment)
        for where in (places.stream(stream).where for stream in STREAMS)
    ]
    states = states_of(places)
    for state in states:
        sweep(state, plan_sweep(state, min_age=0))
    unknown, total = unaccounted(places, states)
    faults = [fault for state in states for result in verify(state, deep=True) for fault in result.faults]
    findings = [
        Finding("blobs that nothing accounts for, after repair and sweep", _some(unknown, total), not unknown),
        Finding("faults in backups", f"{len(faults)} in {len(states)} states", not faults),
    ]
    failures += [
        _failure("azureblob_source", "vacuum", where, "--older-than", "0s", "--force", "--yes", env=environment)
        for where in (places.stream(stream).where for stream in STREAMS)
    ]
    failures.append(_failure("adjunct_store", "verify", places.planes.where, env=environment))
    unknown, total = unaccounted(places, states)
    failed = [each for each in failures if each]
    return [
        *findings,
        Finding("the same after vacuum", _some(unknown, total), not unknown),
        Finding("commands that failed", "\n".join(failed) or "0", not failed),
    ]


def _some(names: list[str], total: int) -> str:
    return f"{len(names)} of {total:,} {' '.join(names[:3])}".strip()


def states_of(places: Places) -> list[Location]:
    """The states that there must be: the checkpoint of each query and generation, and the partitions of the store."""
    container, names = places.planes.open(), StoreNames(places.planes.path)
    manifest = read_manifest(container, names.store)
    generations = () if manifest is None else manifest.generations
    partitions = [names.state(each.number, number) for each in generations for number in range(each.partitions)]
    fills = [f"{places.backup('planes').path}/g{each.number}" for each in generations]
    stored = [Location(f"{places.container}/{path}", places.account) for path in [*fills, *partitions]]
    return [*(places.backup(stream) for stream in STREAMS), *stored]


def unaccounted(places: Places, states: list[Location]) -> tuple[list[str], int]:
    """The blobs that no log, no state, no store and no job needs; and how many blobs there are."""
    container = places.job.open()
    known = {names_of(places.container, places.job.path).blob, StoreNames(places.planes.path).manifest}
    folders = [StoreNames(places.planes.path).all_pins]
    for stream in STREAMS:
        log = CommitLog(container, places.stream(stream).path)
        head = log.refresh()
        known |= set() if head is None else {blob.name for blob in blobs_live_at(log, head.version)}
        folders += [f"{log.stream}/{of}/" for of in ("_log", "_schemas", "_iceberg")]
    for state in states:
        known |= {*plan_sweep(state, min_age=0).in_use, f"{state.path}/checkpoint.json"}
    names = [blob.name for blob in container.list("", uncommitted=True)]
    return [name for name in names if name not in known and not name.startswith(tuple(folders))], len(names)


def _failure(module: str, *arguments: str, env: Mapping[str, str]) -> str:
    """What a command has printed if it has failed; empty if it has not."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], env=dict(env), capture_output=True, text=True, check=False
    )
    return f"{module} {' '.join(arguments)}: {done.stdout}{done.stderr}" if done.returncode else ""

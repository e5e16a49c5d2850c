"""Three jobs that are connected only by streams: flights to daily windows to totals, each killed at random.

The judge reads the streams with the Azure SDK and fastavro, and the flights with pyarrow; it knows nothing of books.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from azure.storage.blob import ContainerClient

from tests.crash.flights import flights, write_files
from tests.crash.killing import FlightsJob, live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.azurite import Azurite

MINUTES, DAY = 60_000, 24 * 3600 * 1000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("size", "kills"),
    [
        pytest.param(
            (6_000, 8),
            {"flights": 1, "windows": 1},
            id="two jobs, once each",
            marks=pytest.mark.timeout(900),  # most of it waits for Sparks to start
        ),
        pytest.param(
            (336_776, 60),
            {"flights": 4, "windows": 6, "totals": 5},
            id="three jobs, often, with other tasks after the first time",
            marks=[pytest.mark.alone, pytest.mark.timeout(2400)],
        ),
    ],
)
def test_totals_through_streams_equal_a_batch_computation(
    azurite: Azurite, container_name: str, tmp_path: Path, size: tuple[int, int], kills: dict[str, int]
) -> None:
    rows, files = size
    table = flights(rows).sort_by("time_hour")
    write_files(table, tmp_path / "input", files)
    inputs: dict[str, Path | str] = {"flights": tmp_path / "input"}
    inputs |= {"windows": f"{container_name}/flights", "totals": f"{container_name}/windows"}
    jobs = {}
    for name in kills:
        (tmp_path / name).mkdir()
        job = FlightsJob(azurite, f"{container_name}/{name}", inputs[name], tmp_path / name)
        jobs[name] = replace(job, module="tests.crash.stage_jobs", arguments=["--stage", name, "--blobs", "1"])

    rescaled = "totals" in kills

    def other_tasks(name: str) -> None:
        if rescaled and name == "flights":
            arguments = [*jobs[name].arguments, "--tasks", "2", "--generation", "1"]
            jobs[name] = replace(jobs[name], arguments=arguments)

    died = live(jobs, kills, random.Random(files), ending=set(jobs), after_kill=other_tasks)

    assert Counter(kills) == died
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        expected = windows_of(table)
        sent = Envelopes.of(client, "flights")
        assert_nothing_overtakes(sent)
        flown = table.filter(pc.is_valid(table["dep_time"]))["row_number"].to_pylist()
        assert sorted(flown) == sorted(flight["row_number"] for _, _, flight in sent.users)
        assert ({0, 1} if rescaled else {0}) == {message["generation"] for _, _, message in sent.control}
        windows = [window for _, _, window in Envelopes.of(client, "windows").users]
        assert expected == {(window["dest"], window["day"]): (window["flights"], window["delay"]) for window in windows}
        assert len(expected) == len(windows)
        assert not any(window["late"] for window in windows)
        emitted_on = Counter(window["emitted_on"] for window in windows)
        assert emitted_on["watermark"] > emitted_on["end"] / 2, emitted_on
        if "totals" in jobs:
            totals = list(records(client, "totals"))
            assert len(totals) == len({total["dest"] for total in totals})
            assert totals_of(expected) == {t["dest"]: (t["windows"], t["flights"], t["delay"]) for t in totals}


def windows_of(table: pa.Table) -> dict[tuple[str, int], tuple[int, float]]:
    """Flights and minutes of delay by destination and day of departure, computed at once."""
    sums: dict[tuple[str, int], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    flown = table.filter(pc.is_valid(table["dep_time"]))
    for flight in flown.select(["dest", "time_hour", "minute", "dep_delay"]).to_pylist():
        departure = int(flight["time_hour"].timestamp()) * 1000 + (flight["minute"] + flight["dep_delay"]) * MINUTES
        window = (flight["dest"], int(departure // DAY * DAY))
        count, delay = sums[window]
        sums[window] = (count + 1, delay + flight["dep_delay"])
    return dict(sums)


def totals_of(windows: dict[tuple[str, int], tuple[int, float]]) -> dict[str, tuple[int, int, float]]:
    """Windows, flights and minutes of delay by destination."""
    sums: dict[str, tuple[int, int, float]] = defaultdict(lambda: (0, 0, 0.0))
    for (dest, _), (count, delay) in windows.items():
        before = sums[dest]
        sums[dest] = (before[0] + 1, before[1] + count, before[2] + delay)
    return dict(sums)


def records(client: ContainerClient, stream: str, *, versions: bool = False) -> Iterator[Any]:
    """All rows of a stream, by its log; with the version of each on request."""
    names = sorted(client.list_blob_names(name_starts_with=f"{stream}/_log/0"))
    for version, name in enumerate(names):
        for blob in json.loads(client.download_blob(name).readall()).get("blobs", ()):
            for record in fastavro.reader(io.BytesIO(client.download_blob(blob["name"]).readall())):
                yield (version, record) if versions else record


@dataclass(frozen=True)
class Envelopes:
    """The messages of an intermediate stream, each with its version and partition, decoded without this project."""

    users: list[tuple[int, int, dict[str, Any]]]
    control: list[tuple[int, int, dict[str, Any]]]

    @staticmethod
    def of(client: ContainerClient, stream: str) -> Envelopes:
        """The envelopes of a stream of JSON payloads."""
        found = Envelopes([], [])
        for version, record in records(client, stream, versions=True):
            kind, message = record["value"][0], json.loads(record["value"][1:])
            (found.users if kind == 0 else found.control).append((version, record["partition"], message))
        return found


def assert_nothing_overtakes(sent: Envelopes) -> None:
    """Assert that no flight is older than a watermark of all tasks of the newest generation in an earlier version."""
    departures = defaultdict(list)
    for version, partition, flight in sent.users:
        instant = pa.scalar(flight["departure"]).cast(pa.timestamp("ms", "UTC")).value
        departures[partition].append((version, instant))
    for partition, flown in departures.items():
        tasks: dict[tuple[int, str], int] = {}
        marks = [each for each in sent.control if each[1] == partition and "timestamp" in each[2]]
        for version, _, message in sorted(marks, key=lambda each: each[0]):
            key = (message["generation"], message["taskName"])
            tasks[key] = max(message["timestamp"], tasks.get(key, message["timestamp"]))
            newest = max(generation for generation, _ in tasks)
            passed = [at for (generation, _), at in tasks.items() if generation == newest]
            if len(passed) == message["taskCount"]:
                late = [at for arrived, at in flown if arrived > version and at < min(passed)]
                assert [] == late

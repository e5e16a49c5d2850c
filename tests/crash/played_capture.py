"""Plays Event Hubs Capture beside a streaming query that follows its folder, and is killed again and again.

    python -m tests.crash.played_capture --minutes 20

32 partitions get a blob a minute each: some without an event, some minutes late. Beside the query two processes of the
command `adopt` discover the same blobs, and are killed too. At the end each event is in the copy of the query once, and
each blob in one entry of the folder's log.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.live import live_blobs
from azureblob_source.write.options import sink_options
from tests.crash.killing import ROOT, STUCK_SECONDS, FlightsJob
from tools.azurite import running_azurite
from tools.sessions import kill_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.container import BlobContainer
    from tools.azurite import Azurite

LATE_WORKER = "Python worker failed to connect back"
FOLDER, COPY = "namespace/hub", "copy"
PARTITIONS, EVENTS = 32, 5
CAPTURE = fastavro.parse_schema(
    {
        "type": "record",
        "name": "EventData",
        "namespace": "Microsoft.ServiceBus.Messaging",
        "fields": [
            {"name": "SequenceNumber", "type": "long"},
            {"name": "Offset", "type": "string"},
            {"name": "EnqueuedTimeUtc", "type": "string"},
            {
                "name": "SystemProperties",
                "type": {"type": "map", "values": ["long", "double", "string", "bytes"]},
            },
            {"name": "Properties", "type": {"type": "map", "values": ["long", "double", "string", "bytes", "null"]}},
            {"name": "Body", "type": ["null", "bytes"]},
        ],
    }
)
"""The schema of Event Hubs Capture."""


@dataclass
class Capture:
    """Writes the folder, in a thread, for `minutes` at least, and until it is `over`.

    second: how long a minute of Capture takes (s).
    """

    container: BlobContainer
    minutes: int
    second: float
    draws: random.Random
    over: Callable[[], bool]
    events: int = 0
    blobs: int = 0
    late: int = 0
    error: BaseException | None = None
    _held: list[tuple[int, str, bytes]] = field(default_factory=list)

    def run(self) -> None:
        """Write all minutes; the times in the names begin a day ago."""
        try:
            first, minute = datetime.now(UTC) - timedelta(days=1), 0
            while minute < self.minutes or not self.over():
                began = time.monotonic()
                self._write(minute, first + timedelta(minutes=minute))
                self._release(minute)
                time.sleep(max(0.0, began + self.second - time.monotonic()))
                minute += 1
            self._release(minute + 5)
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits for the thread
            self.error = error

    def _write(self, minute: int, moment: datetime) -> None:
        for partition in range(PARTITIONS):
            count = 0 if self.draws.random() < 0.05 else EVENTS
            name = f"{FOLDER}/{partition}/{moment:%Y/%m/%d/%H/%M/%S}.avro"
            data = self._file(count, moment)
            if self.draws.random() < 0.05:
                self.late += 1
                self._held.append((minute + self.draws.randint(1, 4), name, data))
            else:
                self.container.put(name, data)
            self.blobs += 1

    def _release(self, minute: int) -> None:
        for each in [each for each in self._held if each[0] <= minute]:
            self._held.remove(each)
            self.container.put(each[1], each[2])

    def _file(self, count: int, moment: datetime) -> bytes:
        out = io.BytesIO()
        rows = []
        for _ in range(count):
            body = f'{{"id": {self.events}}}'.encode()
            properties = {"x-opt-partition-key": "key"}
            rows.append(
                {
                    "SequenceNumber": self.events, "Offset": str(self.events), "EnqueuedTimeUtc": moment.isoformat(),
                    "SystemProperties": properties, "Properties": {}, "Body": body,
                }
            )  # fmt: skip
            self.events += 1
        fastavro.writer(out, CAPTURE, rows)
        return out.getvalue()


@dataclass
class Play:
    """One run. kills: of the query, and of the commands, so far."""

    azurite: Azurite
    container: str
    folder: Path
    draws: random.Random
    kills: Counter[str] = field(default_factory=Counter)

    def run(self, minutes: int, second: float, pause: tuple[float, float], least: int = 1) -> dict[str, int]:
        """Play it; then compare.

        pause: seconds from the first batch of a query to its kill, at least and at most. least: kills of the query.
        """
        raw = {"connectionString": self.azurite.connection_string, "path": f"{self.container}/{FOLDER}"}
        container = connect(sink_options(raw, {}).account).container(self.container)
        container.create()
        capture = Capture(container, minutes, second, self.draws, lambda: self.kills["query"] >= least)
        writing = threading.Thread(target=capture.run, daemon=True)
        writing.start()
        commands = [self._command(number) for number in range(2)]
        try:
            while writing.is_alive():
                with self._job().life() as query:
                    self._while_alive(writing, query, commands, self.draws.uniform(*pause))
        finally:
            for command in commands:
                kill_session(command)
        if capture.error is not None:
            raise capture.error
        while self._last_life() != 0:
            pass
        return self._compare(container, capture)

    def _while_alive(
        self,
        writing: threading.Thread,
        query: subprocess.Popen[bytes],
        commands: list[subprocess.Popen[bytes]],
        pause: float,
    ) -> None:
        """Let a query live for some time after its first batch; meanwhile a command is killed."""
        job, begun = self._job(), self._job().batches("offsets")
        due = None
        while writing.is_alive() and (due is None or time.monotonic() < due):
            if query.poll() is not None:
                self._check_late_worker(job, query.wait())
                return
            if due is None and job.batches("offsets") > begun:
                due = time.monotonic() + pause
                number = self.draws.randrange(len(commands))
                kill_session(commands[number])
                commands[number] = self._command(number)
                self.kills["adopt"] += 1
            time.sleep(0.05)
        self.kills["query"] += writing.is_alive()

    def _last_life(self) -> int:
        """A life of the query to the end of what is there; its exit code."""
        job = self._job("--available-now")
        with job.life() as query:
            code = query.wait(STUCK_SECONDS)
        if code:
            self._check_late_worker(job, code)
        return code

    def _check_late_worker(self, job: FlightsJob, code: int) -> None:
        """A query may end by itself only since this machine was too busy for Spark, which waits ten seconds."""
        if LATE_WORKER not in (job.folder / "output.txt").read_text(errors="replace"):
            job.check_end(code or 1)
        self.kills["late worker"] += 1

    def _job(self, *arguments: str) -> FlightsJob:
        source, target = f"{self.container}/{FOLDER}", f"{self.container}/{COPY}"
        return FlightsJob(
            self.azurite, target, source, self.folder, module="tests.crash.capture_job", arguments=arguments
        )

    def _command(self, number: int) -> subprocess.Popen[bytes]:
        command = ["-m", "azureblob_source", "adopt", f"{self.container}/{FOLDER}", "-o", "minBlobAgeMs=0", "--follow"]
        with (self.folder / f"adopt{number}.txt").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *command, "--every", "1s"],
                cwd=ROOT,
                env={**os.environ, "AZURE_STORAGE_CONNECTION_STRING": self.azurite.connection_string},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _compare(self, container: BlobContainer, capture: Capture) -> dict[str, int]:
        """Each event is in the copy once, each blob in the log once."""
        history = CommitLog(container, FOLDER).history()
        named = [blob.name for entry in history for blob in entry.blobs]
        there = [blob.name for blob in container.list(f"{FOLDER}/") if blob.name.endswith(".avro")]
        data = [name for name in there if "/_" not in name]
        assert (capture.blobs, sorted(data)) == (len(data), sorted(named))
        copied: Counter[int] = Counter()
        for name in live_blobs(CommitLog(container, COPY).history()):
            rows: Any = fastavro.reader(io.BytesIO(container.get(name).data))
            for row in rows:
                copied[row["SequenceNumber"]] += 1
                assert f'{{"id": {row["SequenceNumber"]}}}' == row["body"]
        twice, lost = sum(count > 1 for count in copied.values()), capture.events - len(copied)
        assert (0, 0) == (twice, lost), f"{twice} events are there twice, {lost} are lost"
        return {
            "blobs": capture.blobs, "late blobs": capture.late, "events": capture.events, "entries": len(history),
            "batches of the query": self._job().batches("commits"), "queries killed": self.kills["query"],
            "queries that ended since the machine was busy": self.kills["late worker"],
            "commands killed": self.kills["adopt"], "events twice": twice, "events lost": lost,
        }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=20)
    parser.add_argument("--second", type=float, default=60.0, help="seconds that a minute of Capture takes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, running_azurite() as azurite:
        play = Play(azurite, "captures", Path(folder), random.Random(given.seed))
        for name, count in play.run(given.minutes, given.second, (5.0, 60.0)).items():
            print(f"{count:>10,}  {name}")  # noqa: T201 - the result


if __name__ == "__main__":
    main()

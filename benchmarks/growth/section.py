"""The contenders take turns at each point of each axis; a proxy counts the requests of all alike.

Each point has an emulator of its own, which frees its memory at once when it ends. A contender takes part in further
rounds at a point until it has spent some seconds there, so that slow ones do not take all of the time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.storage.blob import BlobServiceClient, ContainerClient

from benchmarks.counting_proxy import counting_proxy
from benchmarks.growth.histories import DeltaTables, fill_folder, fill_stream
from benchmarks.growth.points import NEW_TIME, WRITERS, Axis, Contender, Point, points
from benchmarks.kills.lives import PEER_PYTHON, ROOT, jars
from benchmarks.report import Report
from tools.azurite import local_azurite, running_azurite
from tools.sessions import kill_session

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from benchmarks.counting_proxy import CountingProxy
    from tools.azurite import Azurite

SECONDS = 5.0
"""After which a contender takes no part in further rounds of writes, or of reads, at a point."""
WARM_UP = {
    Axis.ROWS: Point(Axis.ROWS, 0, rows=20_000),
    Axis.CORES: Point(Axis.CORES, 0, rows=20_000, tasks=2, cores=2),
}
"""What is written and read before an axis, of which new jobs have a part."""
KINDS = ("GET", "HEAD", "LIST", "PUT", "DELETE")
NATIVE = "pyspark_azureblob_native"
_MIB = 1 << 20
Line = dict[str, str | float]


def run(rounds: int, copies: int, quick: bool = False) -> list[Report]:  # noqa: ARG001 - rows are made
    """One table for each axis: a line for each point, contender, and act."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        jobs = Jobs(stack, folder, jars(folder))
        measuring = Measuring(jobs, folder, rounds)
        lines: dict[Axis, list[Line]] = {}
        for axis in Axis:
            if axis in WARM_UP:
                measuring.warm_up(WARM_UP[axis])
            lines[axis] = [line for point in points(axis, quick=quick) for line in measuring.of(point)]
    note = (
        f"Spark 4.0.1, {jobs.decoders}. MiB: of the largest Python worker, and of Java's heap with its garbage, at most"
    )
    return [Report(f"Growth with {axis}", some, note) for axis, some in lines.items()]


@dataclass
class Jobs:
    """The programs on Spark 4.0, each started when it is first needed: by decoder, and by cores."""

    stack: ExitStack
    folder: Path
    jars: str
    started: dict[tuple[bool, int], Job] = field(default_factory=dict)

    def of(self, contender: Contender, cores: int) -> Job:
        """Who does the work of a contender."""
        key = contender is Contender.COMPILED, cores
        if key not in self.started:
            output = self.folder / f"job-{len(self.started)}.txt"
            self.started[key] = self.stack.enter_context(_job(self.jars, cores, output, native=key[0]))
        return self.started[key]

    @property
    def compiled(self) -> bool:
        """Whether there is a compiled decoder."""
        return find_spec(NATIVE) is not None

    @property
    def decoders(self) -> str:
        """For the note of a table."""
        return "with the compiled decoder" if self.compiled else "without the compiled decoder, which is not installed"


@dataclass(frozen=True)
class Job:
    """One program, which answers one order after another."""

    process: subprocess.Popen[bytes]
    output: Path

    def answer(self, order: dict[str, Any]) -> dict[str, float]:
        """What it has measured. `RuntimeError` with its own words if it has failed."""
        assert self.process.stdin is not None  # noqa: S101 - for mypy: both are pipes
        assert self.process.stdout is not None  # noqa: S101
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": self.output.read_text(errors="replace")[-4000:]}
        if "error" in answer:
            raise RuntimeError(f"{order['contender']}, {order['act']}, {order['point']}: {answer['error']}")
        return dict(answer)


@contextmanager
def _job(packages: str, cores: int, output: Path, *, native: bool) -> Iterator[Job]:
    with output.open("wb") as errors, tempfile.TemporaryDirectory() as decoder:
        process = subprocess.Popen(
            [PEER_PYTHON, "-m", "benchmarks.growth.job", packages, str(cores)],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *([_native(Path(decoder))] if native else [])]),
                "AZUREBLOB_DECODER": "native" if native else "pure",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield Job(process, output)
        finally:
            kill_session(process)


def _native(folder: Path) -> str:
    """A folder for the import path that has the compiled decoder of this environment, and nothing else of it."""
    spec = find_spec(NATIVE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(NATIVE)
    (folder / NATIVE).symlink_to(Path(spec.origin).parent)
    return str(folder)


@dataclass(frozen=True)
class Sample:
    """One write or read. stored: bytes of its blobs; 0 of a read."""

    seconds: float
    requests: Counter[str]
    stored: int
    answer: dict[str, float]


@dataclass
class Measuring:
    """Measures one point after another."""

    jobs: Jobs
    folder: Path
    rounds: int
    tables: DeltaTables = field(init=False)
    emulators: int = 0

    def __post_init__(self) -> None:
        """The table of histories grows from point to point."""
        self.tables = DeltaTables(self.folder / "delta")

    def warm_up(self, point: Point) -> None:
        """Let each job write and read a few times."""
        for _ in range(2):
            self.of(point)

    def of(self, point: Point) -> list[Line]:
        """The lines of one point, which are shown on standard error too."""
        self.emulators += 1
        with running_azurite() as azurite, counting_proxy(azurite.blob_port) as proxy:
            site = Site(self.jobs, point, azurite, proxy, f"g{self.emulators}")
            since = site.prepare(self.tables)
            written = _in_turn([(each, "write") for each in point.writers], site, self.rounds, since)
            reads = [(each, "read") for each in point.readers if each is not Contender.COMPILED or self.jobs.compiled]
            lines = _lines(point, {**written, **_in_turn(reads, site, self.rounds, since)})
        for line in lines:
            print(json.dumps(line), file=sys.stderr, flush=True)
        return lines


@dataclass
class Site:
    """The emulator of a point. written: the folder of each contender's last write, and how many writes it has."""

    jobs: Jobs
    point: Point
    azurite: Azurite
    proxy: CountingProxy
    name: str
    written: dict[Contender, tuple[str, int]] = field(default_factory=dict)

    def container(self, contender: Contender) -> str:
        """Of this contender. Hadoop keeps its connections by the name, so no other emulator has the same."""
        return f"{self.name}-{contender.name.lower()}"

    def prepare(self, tables: DeltaTables) -> str:
        """Create the containers, with the history of the point. Returns the time since which files are new."""
        service = BlobServiceClient.from_connection_string(self.azurite.connection_string)
        for each in WRITERS:
            service.create_container(self.container(each))
        if self.point.history < 0:
            return ""
        paths = {each: f"{self.container(each)}/rows" for each in WRITERS}
        fill_stream(self.azurite, paths[Contender.OURS], self.point.history)
        tables.fill(self.azurite, paths[Contender.DELTA], self.point.history)
        fill_folder(self.azurite, paths[Contender.AVRO], self.point.history)
        time.sleep(1.5)  # times of modification have whole seconds
        since = datetime.now(UTC)
        time.sleep(1.5)
        return since.strftime("%Y-%m-%dT%H:%M:%S")

    def sample(self, contender: Contender, act: str, turn: int, since: str) -> Sample:
        """One write or read. The first read is followed by a count: `AssertionError` unless it has all rows."""
        writer = Contender.OURS if contender is Contender.COMPILED else contender
        if act == "write":
            folder, before = "rows" if since else f"rows-{turn}", self.written.get(writer, ("", 0))[1]
            self.written[writer] = folder, before + 1
        folder, times = self.written[writer]
        reached = local_azurite(self.proxy.port, self.proxy.port)
        new = (since if contender is Contender.AVRO else NEW_TIME) if since else ""
        place = {"azurite": reached.connection_string, "container": self.container(writer), "folder": folder}
        job = self.jobs.of(contender, self.point.cores)
        order = {"contender": contender, "point": asdict(self.point), "place": {**place, "since": new}}
        self.proxy.take_methods()
        answer = job.answer({**order, "act": act, "memory": turn == 0})
        methods = self.proxy.take_methods()
        if turn > 0:
            return Sample(answer["s"], methods, 0, answer)
        expected = self.point.rows * (times if since else 1)
        rows = expected if act == "write" else job.answer({**order, "act": "count", "memory": False})["rows"]
        if rows != expected:
            raise AssertionError(f"{contender} has read {rows} rows of {expected}: {self.point}.")
        return Sample(answer["s"], methods, self._stored(writer, folder) if act == "write" else 0, answer)

    def _stored(self, contender: Contender, folder: str) -> int:
        connection, name = self.azurite.connection_string, self.container(contender)
        with ContainerClient.from_connection_string(connection, name) as container:
            return sum(blob.size for blob in container.list_blobs(f"{folder}/"))


def _in_turn(
    contenders: Sequence[tuple[Contender, str]], site: Site, rounds: int, since: str
) -> dict[tuple[Contender, str], list[Sample]]:
    """Each round begins with another contender; those that have spent `SECONDS` take no part in it."""
    samples: dict[tuple[Contender, str], list[Sample]] = {each: [] for each in contenders}
    for turn in range(min(rounds, site.point.most_rounds)):
        first = turn % len(contenders)
        for each in [*contenders[first:], *contenders[:first]]:
            if sum(sample.seconds for sample in samples[each]) < SECONDS:
                samples[each].append(site.sample(*each, turn, since))
    return samples


def _lines(point: Point, samples: dict[tuple[Contender, str], list[Sample]]) -> list[Line]:
    return [_line(point, contender, act, some) for (contender, act), some in samples.items()]


def _line(point: Point, contender: Contender, act: str, samples: Sequence[Sample]) -> Line:
    """Medians; the requests are those of the sample that has the median of them."""
    taken = [sample.seconds for sample in samples]
    totals = [sample.requests.total() for sample in samples]
    requests = samples[totals.index(statistics.median_low(totals))].requests
    return {
        "axis": point.axis.value,
        "value": point.value,
        "contender": contender.value,
        "act": act,
        "s": statistics.median(taken),
        "fastest": min(taken),
        "slowest": max(taken),
        "rounds": len(taken),
        "requests": requests.total(),
        **{kind: requests[kind] for kind in KINDS},
        "MB stored": samples[0].stored / 1e6,
        "worker MiB": samples[0].answer["worker"],
        "heap MiB": samples[0].answer["heap"],
        "load": os.getloadavg()[0],
    }

"""Runs a job (`flights_job`, `copy_job`, `stage_jobs`) and kills it with all its processes, at chosen moments.

A *life* is one process of the job, from its start to its end or its kill. What a kill has interrupted is found out
afterwards, from Spark's checkpoint, the commit log, and the staged and published blobs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tools.sessions import kill_session
from tools.spark_session import java_options

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.crash.visible_blobs import VisibleBlobs
    from tools.azurite import Azurite

ROOT = Path(__file__).resolve().parents[2]
STUCK_SECONDS = 240.0
"""A life without progress for so long (s) fails the test."""

_POLL_SECONDS = 0.002


@dataclass(frozen=True)
class FlightsJob:
    """How the job is run: its input, its target, and the folder of its checkpoint and output."""

    azurite: Azurite
    path: str
    input: Path | str
    folder: Path
    module: str = "tests.crash.flights_job"
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint of the query."""
        return self.folder / "checkpoint"

    @contextmanager
    def life(self) -> Iterator[subprocess.Popen[bytes]]:
        """One process of the job, in a session of its own. All its processes are killed at the end of the block."""
        command = [sys.executable, "-m", self.module, self.input, self.checkpoint, self.path]
        settings = ["--conf", f"spark.driver.extraJavaOptions={java_options(quick_start=True)}", *self.arguments]
        with (self.folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                [*map(str, command), *settings],
                cwd=ROOT,
                env={
                    **os.environ,
                    **self.environment,
                    # for executors, whose working folder is another one
                    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
                    "AZURE_STORAGE_CONNECTION_STRING": self.azurite.connection_string,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                kill_session(process)

    def run(self) -> None:
        """Run one life to its end. Asserts that it succeeds."""
        with self.life() as process:
            self.check_end(process.wait(STUCK_SECONDS))

    def check_end(self, code: int) -> None:
        """Fail with the end of the job's output unless its exit code is 0."""
        words = (self.folder / "output.txt").read_text(errors="replace")[-4000:]
        assert code == 0, f"the job ended by itself with {code}:\n{words}"

    def batches(self, of: Literal["offsets", "commits"]) -> int:
        """Number of batches that have begun (`offsets`) or ended (`commits`) in the checkpoint, over all lives."""
        return batches_in(self.checkpoint / of)


def batches_in(folder: Path) -> int:
    """Number of batches that a folder of a checkpoint has, over all lives."""
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1) + 1


@dataclass(frozen=True)
class Moment:
    """When to kill: `delay` seconds after `count` batches of a life have begun or are committed, or after its start."""

    event: Literal["start", "begun", "committed"]
    count: int
    delay: float

    @staticmethod
    def draw(rng: random.Random) -> Moment:
        """A random moment, most often during a batch."""
        match rng.choices(("start", "first batch", "begun", "committed"), (2, 2, 5, 5))[0]:
            case "start":
                return Moment("start", 0, rng.uniform(0, 8))
            case "first batch":
                return Moment("begun", 1, rng.uniform(0, 4))
            case "begun":
                return Moment("begun", rng.randint(2, 3), rng.uniform(0, 0.7))
            case _:
                return Moment("committed", rng.randint(1, 3), rng.uniform(0, 0.03))


class Hit(Enum):
    """What a kill has interrupted, as far as the evidence shows."""

    STARTING = "starting, nothing new was done"
    BETWEEN = "between two batches"
    BEGUN = "batch begun, nothing staged"
    STAGING = "batch staged in part or whole, not committed"
    PUBLISHING = "batch committed, published in part"
    PUBLISHED = "batch committed and published, unknown to the checkpoint"


@dataclass(frozen=True)
class Evidence:
    """What is left after a kill."""

    begun: int
    ended: int
    committed: int
    staged: frozenset[str]
    unpublished: int

    def hit(self, before: Evidence) -> Hit:
        """What the life between the two evidences was doing when it was killed."""
        if self == before:
            return Hit.STARTING
        if self.begun == self.ended:
            return Hit.BETWEEN
        if self.committed == self.begun:
            return Hit.PUBLISHING if self.unpublished else Hit.PUBLISHED
        return Hit.STAGING if self.staged - before.staged else Hit.BEGUN


NOTHING = Evidence(0, 0, 0, frozenset(), 0)


@dataclass
class Killings:
    """Lives of one job, one after the other, until the end of its input."""

    job: FlightsJob
    visible: VisibleBlobs
    after_kill: Callable[[], None]
    """Called after every kill, while nothing runs."""
    hits: list[Hit] = field(default_factory=list)
    evidence: Evidence = NOTHING

    def run(self, moments: Sequence[Moment]) -> None:
        """Kill one life at each moment; then let one live to its end."""
        for moment in moments:
            with self.job.life() as process:
                if not self.reached(moment, process):
                    return
                assert kill_session(process) > 0
            self._note(moment)
        self.job.run()

    def reached(self, moment: Moment, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the moment. False if the job succeeded before."""
        begun = max(self.job.batches("offsets"), self.evidence.begun)  # a lost disk is restored in this life
        committed = self.evidence.committed
        seen, moved = 0, time.monotonic()
        due = moved + moment.delay if moment.event == "start" else None
        while due is None or time.monotonic() < due:
            if (code := process.poll()) is not None:
                self.job.check_end(code)
                return False
            assert time.monotonic() < moved + STUCK_SECONDS, f"no progress: {(self.job.folder / 'output.txt')}"
            if due is None:
                last = seen
                if moment.event == "begun":
                    seen = self.job.batches("offsets") - begun
                elif self.visible.has_version(committed + seen):
                    seen += 1
                moved = time.monotonic() if seen > last else moved
                due = time.monotonic() + moment.delay if seen >= moment.count else None
            time.sleep(_POLL_SECONDS)
        return True

    def _note(self, moment: Moment) -> None:
        state = self.visible.state()
        last = state.entries[-1] if state.entries else {}
        evidence = Evidence(
            begun=self.job.batches("offsets"),
            ended=self.job.batches("commits"),
            committed=len(state.entries),
            staged=state.staged,
            unpublished=sum(blob["name"] not in state.published for blob in last.get("blobs", ())),
        )
        self.hits.append(evidence.hit(self.evidence))
        self.evidence = evidence
        print(f"{moment} hit: {self.hits[-1].value}; {evidence.ended} batches ended")  # noqa: T201 - shown by -s
        self.after_kill()


def live(
    jobs: dict[str, FlightsJob],
    kills: Mapping[str, int],
    rng: random.Random,
    *,
    ending: set[str],
    after_kill: Callable[[str], None],
) -> Counter[str]:
    """All jobs at once, started again after every kill, until those of `ending` have ended and no kill is left.

    A job is killed shortly after some batches more have begun. One that is not of `ending` must not end by itself; it
    is killed at last. `after_kill` gets the name of the job, and may change the jobs for their next lives. Returns how
    often each died.
    """
    left, died = Counter(kills), Counter[str]()
    with ExitStack() as stack:
        running = {name: stack.enter_context(job.life()) for name, job in jobs.items()}
        due = {name: _Due.draw(jobs[name], rng) for name in jobs if left[name]}
        moved = time.monotonic()
        while left.total() or any(running[name].poll() is None for name in ending):
            assert time.monotonic() < moved + 5 * STUCK_SECONDS, f"kills left: {left}"
            for name, process in running.items():
                code = process.poll()
                if code is not None:
                    jobs[name].check_end(code)
                    assert name in ending, f"the {name} ended while it should follow"
                if name in due and due[name].reached(jobs[name]):
                    assert kill_session(process) > 0, f"the {name} ended before it could be killed"
                    died[name] += 1
                    left[name] -= 1
                    after_kill(name)
                    running[name] = stack.enter_context(jobs[name].life())
                    moved = time.monotonic()
                    del due[name]
                    if left[name]:
                        due[name] = _Due.draw(jobs[name], rng)
                    break
            time.sleep(0.01)
        for name in ending:
            jobs[name].check_end(running[name].wait())
    return died


@dataclass
class _Due:
    """When to kill a job: `delay` seconds after `batches` of its checkpoint have begun."""

    batches: int
    delay: float
    since: float | None = None

    @staticmethod
    def draw(job: FlightsJob, rng: random.Random) -> _Due:
        return _Due(job.batches("offsets") + rng.randint(1, 3), rng.uniform(0, 0.5))

    def reached(self, job: FlightsJob) -> bool:
        if self.since is None and job.batches("offsets") >= self.batches:
            self.since = time.monotonic()
        return self.since is not None and time.monotonic() >= self.since + self.delay

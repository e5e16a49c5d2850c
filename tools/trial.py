"""Tries the wheels of `dist/` as a user does, away from this checkout: `make trial`.

For each Spark and Python an environment that has nothing but `pyspark-azureblob[spark]` writes and reads with both
decoders. For one Python of each Spark the first example of each guide runs, in an environment with what its page tells
to install, of the versions of the lock file (`tools/guide_programs.py`).
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from tools.azurite import running_azurite
from tools.guide_programs import ADOPTABLE_AFTER, GUIDES, has_commits, write_inputs
from tools.guides import installed
from tools.java import java_home
from tools.pythons import VERSIONS, find_python
from tools.reporting import wait_for
from tools.sessions import kill_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO

    from tools.guide_programs import Guide

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CACHE = ROOT / ".trial"
"""uv's cache, and the wheels of pyspark."""

SPARKS = {"40": "3.11", "41": "3.12", "42": "3.13", "43": "3.13"}
"""The supported releases of Spark, as lock files name them, each with the Python on which `make matrix` tests it."""

SECONDS = 1200.0
"""For a program, on a busy machine."""
PROJECT = re.compile(r"(?:\.|pyspark-azureblob)(\[[a-z,-]+\])?")
"""How pages name this package to pip: the checkout, or its name, with extras."""

ROUND_TRIP = """
import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

import azureblob_source
from arrow_avro.decoding.scanners import scanner_class

assert azureblob_source.__file__.startswith(sys.prefix), azureblob_source.__file__
spark = SparkSession.builder.getOrCreate()
rows = spark.range(1000).selectExpr(
    "id",
    "if(id % 7 = 0, null, concat('gate ', id % 3)) AS gate",
    "cast(id AS decimal(20, 3)) AS price",
    "timestamp_micros(id) AS at",
    "named_struct('days', array(date_from_unix_date(int(id))), 'half', id * 0.5D) AS more",
)
rows.write.format("azureblob").mode("append").save(sys.argv[1])
read = spark.read.format("azureblob").load(sys.argv[1]).select(rows.columns)
assert sorted(rows.collect(), key=lambda row: row.id) == sorted(read.collect(), key=lambda row: row.id)
print(scanner_class().__name__, "reads what was written")
"""
DECODERS = {"pure": "ForthScanner", "native": "NativeScanner"}


class TrialError(Exception):
    """A step failed. The message says which one, and what it printed."""


@dataclass
class Trial:
    """What was tried of a Spark and a Python, and whether the guides were."""

    spark: str
    python: str
    with_guides: bool
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def step(self, name: str, action: Callable[[], object]) -> None:
        """Run a part of the trial, and print how it has ended."""
        started, of = time.monotonic(), f"pyspark {release(self.spark)} on Python {self.python}, {name}"
        try:
            action()
        except (TrialError, OSError, subprocess.SubprocessError) as error:
            self.failed.append(name)
            print(f"{of}: failed: {error}", flush=True)
        else:
            self.passed.append(name)
            print(f"{of}: passed in {time.monotonic() - started:.0f} s", flush=True)


def try_pair(spark: str, python: str, *, with_guides: bool) -> Trial:
    """Try the wheels with a Spark (such as `41`) and a Python (such as `3.12`). `AzuriteMissingError`."""
    trial, started = Trial(spark, python, with_guides), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trial-") as name, running_azurite() as azurite:
        lock = ROOT / "requirements" / f"pyspark{spark}.lock"
        runner = Runner(lock, python, Path(name), azurite.connection_string)
        for decoder in DECODERS:
            trial.step(decoder, lambda decoder=decoder: runner.round_trip(decoder))  # type: ignore[misc]
        if with_guides:
            write_inputs(runner.folder, azurite.connection_string)
            runner.inputs_at = time.monotonic()
            for guide in sorted(GUIDES, key=lambda guide: guide.adopts):
                trial.step(guide.page, lambda guide=guide: runner.guide(guide))  # type: ignore[misc]
    trial.seconds = time.monotonic() - started
    return trial


def try_pairs(sparks: Iterable[str], pythons: Sequence[str], *, guides: str = "once") -> Iterator[Trial]:
    """Try each Spark with each Python. guides: on `all` of these pairs, `once` for each Spark, or on `none`."""
    for spark, python in product(sparks, pythons):
        once = guides == "once" and python == chosen_python(spark, pythons)
        yield try_pair(spark, python, with_guides=once or guides == "all")


class Runner:
    """Runs programs in new environments of a Python and a lock file, in a folder, with one account."""

    def __init__(self, lock: Path, python: str, folder: Path, connection: str) -> None:
        self.lock, self.python, self.folder, self.connection = lock, python, folder, connection
        self.inputs_at = 0.0
        self._pythons: dict[tuple[str, ...], Path] = {}
        (folder / "tmp").mkdir()

    def round_trip(self, decoder: str) -> None:
        """Write and read all in one session, with one decoder."""
        python = self.python_with([".[spark]"])
        program = self._save(f"{decoder}.py", ROUND_TRIP)
        output = self.run([python, program, f"trial/{decoder}"], AZUREBLOB_DECODER=decoder)
        if DECODERS[decoder] not in output:
            raise TrialError(f"another decoder was used: {output[-2000:]}")

    def guide(self, guide: Guide) -> None:
        """Run the example of a guide, as the page says."""
        if guide.adopts:
            time.sleep(max(0.0, self.inputs_at + ADOPTABLE_AFTER - time.monotonic()))
        pages = sorted({page for page, _ in guide.blocks})
        python = self.python_with([".[spark]", *(word for page in pages for word in sorted(installed(page)))])
        program = self._save("program.py", guide.program(self.folder))
        output = self.run([python, program, *guide.arguments], guide.serves)
        if guide.prints not in output:
            raise TrialError(f"`{guide.prints}` is not in its output: {output[-2000:]}")

    def _save(self, name: str, code: str) -> Path:
        path = self.folder / name
        path.write_text(code, "utf-8")
        return path

    def run(self, command: Sequence[str | Path], streams: Iterable[str] = (), **more: str) -> str:
        """The output of a program that ends by itself, or by SIGTERM when it has written `streams`."""
        output = self.folder / "output.txt"

        def has_written() -> bool:
            return process.poll() is not None or all(has_commits(self.connection, stream) for stream in streams)

        with output.open("wb") as file:
            process = self._start(command, file, more)
            try:
                if streams:
                    wait_for(has_written, SECONDS, poll=0.5)
                    process.send_signal(signal.SIGTERM)
                process.wait(SECONDS)
            except (TimeoutError, subprocess.TimeoutExpired):
                pass  # what it has printed is in the error
            finally:
                how = (
                    f"is not done after {SECONDS:.0f} s"
                    if process.poll() is None
                    else f"ended with code {process.returncode}"
                )
                kill_session(process)
        text = output.read_text("utf-8", "replace")
        if how != "ended with code 0":
            raise TrialError(f"{' '.join(Path(word).name for word in command)} {how}: {text[-3000:]}")
        return text

    def _start(
        self, command: Sequence[str | Path], output: IO[bytes], more: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """A process that sees its environment, a Java, the account, and nothing of this checkout."""
        temporary, java = self.folder / "tmp", java_home()
        environment = {
            "PATH": f"{Path(command[0]).parent}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "TMPDIR": str(temporary),
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={temporary} -Xlog:disable -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AZURE_STORAGE_CONNECTION_STRING": self.connection,
            **({} if java is None else {"JAVA_HOME": str(java)}),
            **more,
        }
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )

    def _pyspark(self) -> tuple[Path, Path]:
        """A wheel of the lock file's pyspark, which has a source archive only, and the other lines of the lock file.

        uv would build it for each environment, and keep 2 GB each time.
        """
        text = self.lock.read_text("utf-8")
        line, rest = self.folder / "pyspark.txt", self.folder / "constraints.txt"
        found = re.search(r"(?ms)^pyspark==(\S+).*?(?=^\S)", text)
        if found is None:
            raise TrialError(f"{self.lock.name} has no pyspark.")
        line.write_text(found[0], "utf-8")
        rest.write_text(text.replace(found[0], ""), "utf-8")
        wheels_of_it = CACHE / "pyspark"
        if not (built := sorted(wheels_of_it.glob(f"pyspark-{found[1]}-*.whl"))):
            options = ["--quiet", "--no-cache-dir", "--no-deps", "--require-hashes"]
            run_tool([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", wheels_of_it, "-r", line])
            built = sorted(wheels_of_it.glob(f"pyspark-{found[1]}-*.whl"))
        return built[0], rest

    def python_with(self, words: Sequence[str]) -> Path:
        """The Python of an environment with what a page tells to install, the wheels in the place of the checkout."""
        wanted = requirements(words)
        key = tuple(wanted)
        if key not in self._pythons:
            folder = self.folder / f"venv-{len(self._pythons)}"
            interpreter = find_python(self.python)
            if interpreter is None:
                raise TrialError(f"there is no Python {self.python}: put python{self.python} on the PATH.")
            uv("venv", "--quiet", "--python", interpreter, folder)
            python = folder / "bin" / "python"
            pyspark, constraints = self._pyspark()
            more = [pyspark] if "spark" in extras_of(words) else []
            install(python, "--constraints", constraints, *wanted, *more)
            self._pythons[key] = python
        return self._pythons[key]


def requirements(words: Sequence[str]) -> list[str]:
    """What pip gets: the pure wheel with all extras that the words name, `native` if there is one, other packages."""
    pure, *compiled = wheels()
    extras = extras_of(words) | ({"native"} if compiled else set())
    others = {word for word in words if not PROJECT.fullmatch(word) and not word.startswith("./")}
    return [f"{pure}[{','.join(sorted(extras))}]" if extras else str(pure), *sorted(others)]


def extras_of(words: Iterable[str]) -> set[str]:
    """The extras of this package that the words name, such as `spark` and `cli` in `.[spark,cli]`."""
    named = [found[1] for word in words if (found := PROJECT.fullmatch(word)) is not None and found[1]]
    return {extra for each in named for extra in each.strip("[]").split(",")}


def wheels() -> list[Path]:
    """The pure wheel, then the compiled ones, of several systems. Raises `TrialError`."""
    found = sorted(DIST.glob("pyspark_azureblob-*.whl"))
    if len(found) != 1:
        raise TrialError(f"dist/ has {len(found)} wheels of pyspark-azureblob: run `make wheel`.")
    return [*found, *sorted(DIST.glob("pyspark_azureblob_native-*.whl"))]


def install(python: Path, *arguments: str | Path) -> None:
    """Install packages into an environment, from the index and from `dist/`. Raises `TrialError`."""
    uv("pip", "install", "--quiet", "--python", python, "--find-links", DIST, *arguments)


def uv(*arguments: str | Path) -> None:
    """Run uv of this environment. Raises `TrialError`."""
    run_tool([Path(sys.prefix) / "bin" / "uv", *arguments, "--cache-dir", CACHE])


def run_tool(command: Sequence[str | Path]) -> None:
    """Run a program that prints only what is wrong. Raises `TrialError`."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise TrialError(f"`{' '.join(map(str, command))}` ended with code {ended.returncode}: {ended.stderr[-3000:]}")


def table(trials: Sequence[Trial]) -> str:
    """A line for each trial."""
    lines = [f"{'pyspark':8}{'Python':8}{'passed':>7}{'failed':>7}{'seconds':>9}"]
    for each in trials:
        failed = f"  {', '.join(each.failed)}" if each.failed else ""
        counts = f"{len(each.passed):>7}{len(each.failed):>7}{each.seconds:>9.0f}"
        lines.append(f"{release(each.spark):8}{each.python:8}{counts}{failed}")
    return "\n".join(lines)


def release(spark: str) -> str:
    """The release of Spark that a lock file is named for: `41` is 4.1."""
    return f"{spark[0]}.{spark[1:]}"


def main() -> int:
    """Try the pairs. The exit code is 0 if all pass, else 1."""
    parser = argparse.ArgumentParser(description="Try the wheels of dist/ in empty environments.")
    add_pairs(parser)
    parser.add_argument(
        "--guides", choices=("once", "all", "none"), default="once", help="for one Python of each Spark"
    )
    given = parser.parse_args()
    trials = list(try_pairs(given.sparks, given.pythons, guides=given.guides))
    print(f"\n{table(trials)}")
    return 1 if any(trial.failed for trial in trials) else 0


def add_pairs(parser: argparse.ArgumentParser) -> None:
    """Add the options that select Sparks and Pythons, all by default."""
    parser.add_argument("--sparks", nargs="+", choices=SPARKS, default=[*SPARKS])
    parser.add_argument("--pythons", nargs="+", choices=VERSIONS, default=[*VERSIONS])


def chosen_python(spark: str, pythons: Sequence[str]) -> str:
    """The Python on which all of a Spark's tests run: that of `SPARKS`, or the newest that is asked for."""
    return SPARKS[spark] if SPARKS[spark] in pythons else pythons[-1]


if __name__ == "__main__":
    sys.exit(main())

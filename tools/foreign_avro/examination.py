"""Reads one Avro file with this project and with fastavro, in a process of its own.

The file is put into an in-memory account as the only blob of a stream, and read as Spark reads it: whole, and again in
three splits. The process is bounded in memory and time, so that a file that kills or stalls its reader is reported.
"""

from __future__ import annotations

import gzip
import io
import multiprocessing
import resource
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from azure_account.memory.account import MemoryAccount
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.clock import ManualClock
from foundation.errors import AzureBlobError
from tools.foreign_avro.comparison import difference, numbers, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from multiprocessing.connection import Connection
    from pathlib import Path

Argument = TypeVar("Argument")

SECONDS = 120.0
MEMORY = 4 << 30
_SPLITS = 3


class Verdict(Enum):
    """The result of a file, as a column of the table."""

    SAME = "same"
    REFUSED_BY_BOTH = "both refuse"
    REFUSED = "refused"
    FASTAVRO_REFUSES = "fastavro refuses"
    DIFFERENT = "different"
    FAULT = "fault"


@dataclass(frozen=True)
class Finding:
    """The result of one file. Unless it is `SAME`, `reason` is the difference, or the error of each reader."""

    verdict: Verdict
    rows: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Refusal:
    """The error of a reader. `known` if it is one of this project's own errors."""

    reason: str
    known: bool = True


def examine(path: Path) -> Finding:
    """Read a file with this project and with fastavro, and compare."""
    data = path.read_bytes()
    ours = _ours(data, path.name)
    theirs = _theirs(data)
    match ours, theirs:
        case Refusal(reason, known=False), _:
            return Finding(Verdict.FAULT, reason=reason)
        case Refusal(), Refusal():
            return Finding(Verdict.REFUSED_BY_BOTH, reason=f"{ours.reason} fastavro: {theirs.reason}")
        case Refusal(), (_, datums):
            return Finding(Verdict.REFUSED, len(datums), ours.reason)
        case list(), Refusal():
            return Finding(Verdict.FASTAVRO_REFUSES, len(ours), theirs.reason)
        case list(), (schema, datums):
            return _compared(schema, ours, datums)
    raise AssertionError(ours, theirs)


def in_own_process(
    act: Callable[[Argument], Finding], argument: Argument, *, seconds: float = SECONDS, memory: int = MEMORY
) -> Finding:
    """The result of `act` in a process of its own, or that the process died or was stopped after `seconds`."""
    here, there = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_send, args=(there, act, argument, memory), daemon=True)
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(seconds) else Finding(Verdict.FAULT, reason=f"no answer after {seconds:g} s")
    except EOFError:
        process.join()
        return Finding(Verdict.FAULT, reason=f"the process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()
        here.close()


def _send(answer: Connection, act: Callable[[Argument], Finding], argument: Argument, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer.send(act(argument))
    except Exception as error:  # noqa: BLE001 - a finding like any other
        answer.send(Finding(Verdict.FAULT, reason=f"{type(error).__name__}: {error}".rstrip(": ")))


def _ours(data: bytes, name: str) -> list[Mapping[str, Any]] | Refusal:
    try:
        whole, in_splits = (list(_rows(data, name, size)) for size in (len(data) + 1, len(data) // _SPLITS + 1))
    except AzureBlobError as refusal:
        return Refusal(str(refusal))
    except Exception as error:  # noqa: BLE001 - any error of the reader is a fault
        return Refusal(f"{type(error).__name__}: {error}", known=False)
    if repr(whole) != repr(in_splits):
        return Refusal(f"{len(whole)} rows, but {len(in_splits)} or other ones in splits", known=False)
    return whole


def _rows(data: bytes, name: str, split_bytes: int) -> Iterator[Mapping[str, Any]]:
    container = MemoryAccount().container("container")
    container.create()
    container.put("stream/1.avro.gz" if name.endswith(".gz") else "stream/1.avro", data)
    snapshot = take_snapshot(CommitLog(container, "stream"), None, ManualClock())
    splits = list(split_blobs(snapshot.blobs, split_bytes))
    for _, batch in read_splits(container, splits, SplitSettings(reader=snapshot.reader_schema)):
        yield from numbers(batch)


def _theirs(data: bytes) -> tuple[Any, list[Any]] | Refusal:
    try:
        return stored(io.BytesIO(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))
    except Exception as error:  # noqa: BLE001 - fastavro has no error type of its own
        return Refusal(f"{type(error).__name__}: {error}")


def _compared(schema: Any, ours: list[Mapping[str, Any]], theirs: list[Any]) -> Finding:
    found = difference(schema, ours, theirs)
    if found is None and len(ours) != len(theirs):
        found = f"{len(ours)} rows, not {len(theirs)}"
    return Finding(Verdict.SAME if found is None else Verdict.DIFFERENT, len(ours), found or "")


# Processes are forked from one that has only imported this module: no threads, and no second of imports for each file.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])

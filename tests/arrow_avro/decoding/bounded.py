"""Decodes blobs in processes of their own, whose memory is measured and limited.

`python bounded.py` takes pickled cases from its input and forks for each, so that the peak of one is not that of the
next. What a fork inherits (the interpreter, pyarrow, one read) is subtracted.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arrow_avro.limits import DEFAULT_LIMITS, ReadLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
_ADDRESS_SPACE = 3 << 30  # of one case; beyond it Python raises MemoryError
_SECONDS = 120


@dataclass(frozen=True)
class Case:
    """One blob to decode."""

    blob: bytes
    limits: ReadLimits = DEFAULT_LIMITS
    columns: tuple[str, ...] | None = None
    reader: str | None = None


@dataclass(frozen=True)
class DecodeResult:
    """`error` is the class of what was raised, or empty; `peak` is resident bytes beyond those before the read."""

    rows: int
    batches: int
    error: str
    message: str
    peak: int


def outcomes(cases: Sequence[Case]) -> list[DecodeResult]:
    """What became of each case."""
    given = pickle.dumps([(case.blob, case.limits, case.columns, case.reader) for case in cases])
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    answer = subprocess.run(
        [sys.executable, __file__], input=given, capture_output=True, check=True, env=environment, timeout=280
    )
    return [DecodeResult(**json.loads(line)) for line in answer.stdout.splitlines()]


def _decoded(case: tuple[bytes, ReadLimits, Any, str | None], before: int) -> DecodeResult:
    from arrow_avro.decoding.decode import decode_blob
    from arrow_avro.schema import parse

    blob, limits, columns, reader = case
    rows = batches = 0
    error = message = ""
    try:
        schema = None if reader is None else parse(reader)
        for batch in decode_blob(blob, blob="b", limits=limits, columns=columns, reader=schema):
            rows, batches = rows + batch.num_rows, batches + 1
    except Exception as raised:  # noqa: BLE001 - the test checks which are right
        error, message = type(raised).__name__, str(raised)
    return DecodeResult(rows, batches, error, message, _peak() - before)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _in_a_fork(case: Any) -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        os.write(write, json.dumps(vars(_decoded(case, _peak()))).encode()[: 1 << 16])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        found = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return found or json.dumps(vars(DecodeResult(0, 0, "died", f"wait status {status}", 0)))


def _main() -> None:
    cases = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from the test itself
    from tests.arrow_avro.decoding.test_scan import framed, record

    _decoded((framed(record(v="long"), (1, b"\x02")), DEFAULT_LIMITS, None, None), 0)
    for case in cases:
        sys.stdout.write(_in_a_fork(case) + "\n")


if __name__ == "__main__":
    _main()

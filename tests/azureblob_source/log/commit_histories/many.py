"""Many histories on several processes, and the table of what happened in them."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from multiprocessing import Pool

from tests.azureblob_source.log.commit_histories.history import run_seed

_REPORTED = 5_000


def kind_of(violation: str) -> str:
    """A violation without names and numbers, so that those of one kind are counted together."""
    return re.sub(r"\('[^)]*\)|\b[0-9a-f]{8,}\b|\d+", "·", violation)[:90]


def run_many(
    first: int, count: int, processes: int, run: Callable[[int], tuple[str | None, Counter[str]]] = run_seed
) -> int:
    """Run them, print violations as they come, then what happened. The number of kinds of violations.

    `run` gives the violation of one seed, if there is one, and the events in it.
    """
    seen: Counter[str] = Counter()
    failed: dict[str, list[int]] = defaultdict(list)
    started = time.monotonic()
    with Pool(processes, quiet) as pool:
        for seed, (violation, events) in enumerate(pool.imap(run, range(first, first + count), 50), first):
            seen.update(events)
            if violation is not None:
                failed[kind_of(violation)].append(seed)
                print(f"history {seed}: {violation}", flush=True)
            if (seed + 1 - first) % _REPORTED == 0:
                elapsed = time.monotonic() - started
                print(f"{seed + 1 - first:>10,} of {count:,} in {elapsed:.0f} s", file=sys.stderr, flush=True)
    for event, number in sorted(seen.items()):
        print(f"{number:>10,}  {event}")
    print(f"{count:,} histories in {time.monotonic() - started:.0f} s")
    for kind, seeds in sorted(failed.items(), key=lambda each: -len(each[1])):
        print(f"{len(seeds):>6} × {kind}   seeds {seeds[:8]}")
    return len(failed)


def quiet() -> None:
    """The protocol warns whenever it voids or replaces, which is all the time here."""
    logging.disable(logging.WARNING)

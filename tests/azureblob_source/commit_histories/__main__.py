"""Run many histories, or show one.

python -m tests.azureblob_source.commit_histories --count 100000 --processes 2
python -m tests.azureblob_source.commit_histories --seed 4711 --shrink
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections import Counter, defaultdict
from multiprocessing import Pool

from tests.azureblob_source.commit_histories.history import History, run_seed, shrink


def kind_of(violation: str) -> str:
    """A violation without names and numbers, so that those of one kind are counted together."""
    return re.sub(r"\('[^)]*\)|\b[0-9a-f]{8,}\b|\d+", "·", violation)[:90]


def _many(first: int, count: int, processes: int) -> int:
    seen: Counter[str] = Counter()
    failed: dict[str, list[int]] = defaultdict(list)
    started = time.monotonic()
    with Pool(processes, _quiet) as pool:
        for seed, (violation, events) in enumerate(pool.imap(run_seed, range(first, first + count), 50), first):
            seen.update(events)
            if violation is not None:
                failed[kind_of(violation)].append(seed)
    for event, number in sorted(seen.items()):
        print(f"{number:>10,}  {event}")
    print(f"{count:,} histories in {time.monotonic() - started:.0f} s")
    for kind, seeds in sorted(failed.items(), key=lambda each: -len(each[1])):
        print(f"{len(seeds):>6} × {kind}   seeds {seeds[:8]}")
    return bool(failed)


def _one(seed: int, *, shorter: bool) -> int:
    violation, _ = run_seed(seed)
    if violation is None:
        print(f"history {seed}: nothing is violated")
        return 0
    kind = kind_of(violation)
    events = shrink(seed, lambda each: kind_of(each) == kind) if shorter else None
    history = History(seed, events, trace=True)
    violation = history.run()
    print(history.setting)
    print("\n".join(history.lines))
    print(f"history {seed}: {violation}")
    return 1


def _quiet() -> None:
    logging.disable(logging.WARNING)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="show this history")
    parser.add_argument("--shrink", action="store_true", help="leave out what it fails without")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument("--count", type=int, default=1000, help="how many histories")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    _quiet()
    if given.seed is not None:
        return _one(given.seed, shorter=given.shrink)
    return _many(given.first, given.count, given.processes)


if __name__ == "__main__":
    sys.exit(main())

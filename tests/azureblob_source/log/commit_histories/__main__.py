"""Run many histories, or show one.

python -m tests.azureblob_source.log.commit_histories --count 100000 --processes 2
python -m tests.azureblob_source.log.commit_histories --seed 4711 --shrink
python -m tests.azureblob_source.log.commit_histories --seed 695 --deleted
"""

from __future__ import annotations

import argparse
import sys

from tests.azureblob_source.log import test_log_identity_histories as of_deleted_streams
from tests.azureblob_source.log.commit_histories.history import History, run_seed, shrink
from tests.azureblob_source.log.commit_histories.many import kind_of, quiet, run_many


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


def _one_of_a_deleted_stream(seed: int) -> int:
    history = of_deleted_streams.History(seed)
    try:
        history.run()
    finally:
        print("\n".join(history.lines))
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="show this history")
    parser.add_argument("--deleted", action="store_true", help="of those of a stream that is deleted and begun again")
    parser.add_argument("--shrink", action="store_true", help="leave out what it fails without")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument("--count", type=int, default=1000, help="how many histories")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    quiet()
    if given.seed is not None and given.deleted:
        return _one_of_a_deleted_stream(given.seed)
    if given.seed is not None:
        return _one(given.seed, shorter=given.shrink)
    failed = run_many(given.first, given.count, given.processes)
    print("Of a stream that is deleted and begun again:")
    count = max(1, given.count // 10)
    return failed + run_many(given.first, count, given.processes, of_deleted_streams.run_seed)


if __name__ == "__main__":
    sys.exit(main())

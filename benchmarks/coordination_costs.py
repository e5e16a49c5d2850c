"""What processors request of storage while nothing changes, by kind, and what that costs."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.coordination_simulation import Job
from benchmarks.report import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.coordination_simulation import Processor

SIZES = (5, 20, 100)
SECONDS = 600
REQUEST_SECONDS = 0.04
HOURS_PER_MONTH = 730

KINDS = {
    "get": "blob reads",
    "put": "blob writes",
    "acquire_lease": "lease requests",
    "renew_lease": "lease requests",
    "query_entities": "table queries",
    "replace_entity": "table writes",
    "delete_entity": "table deletes",
}
PRICES = {
    "blob reads": 0.004,
    "blob writes": 0.05,
    "lease requests": 0.004,
    "table queries": 0.000_36,
    "table writes": 0.000_36,
    "table deletes": 0.000_36,
}
"""US dollars for 10,000. List prices of East US, standard general-purpose v2, hot, locally redundant, in August 2026.

They are those of Azure's Retail Prices API (`Hot Read Operations`, `Hot LRS Write Operations`, `All Other Operations`,
and those of Table storage), as public copies of it have them. Acquiring, renewing and releasing a lease are *other*
operations, and refused requests are charged like others: "Map each REST operation to a price",
learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories, of 2025-05-14.
"""


def table() -> Report:
    """One table: a line for the leader and one for another processor, by the number of processors."""
    lines = [line for size in SIZES for line in _lines(size)]
    note = (
        f"Default durations; counted over {SECONDS // 60} virtual minutes in memory. List prices of East US, hot, "
        "LRS, August 2026, for 10,000: read 0.004, write 0.05, lease 0.004, table 0.00036 USD.\n"
        f"A month has {HOURS_PER_MONTH} hours. A query of up to 1,000 processors is one page, and one request."
    )
    return Report("Requests of a processor in an hour, while nothing changes", lines, note)


def _lines(size: int) -> list[dict[str, str | float]]:
    job = Job(tuple(f"t{number:03}" for number in range(2 * size)), slowest=REQUEST_SECONDS)
    job.join(size)
    job.schedule.run(job.is_shared)
    job.schedule.run_for(job.lease.duration + job.timing.death)
    for processor in job.processors:
        processor.requests.count.clear()
    job.schedule.run_for(SECONDS)
    leaders = [processor for processor in job.processors if processor.election.leads()]
    others = [processor for processor in job.processors if not processor.election.leads()]
    if len(leaders) != 1 or not job.is_shared():
        raise AssertionError(f"{len(leaders)} of {size} processors lead.")
    whole = sum(map(_dollars, map(_by_kind, job.processors)))
    return [_line(size, "leader", leaders, whole), _line(size, "other", others, whole)]


def _by_kind(processor: Processor) -> Counter[str]:
    """Requests in an hour."""
    found: Counter[str] = Counter()
    for operation, count in processor.requests.count.items():
        found[KINDS[operation]] += count * 3600 // SECONDS
    return found


def _dollars(requests: Counter[str]) -> float:
    """What these requests, every hour, cost in a month."""
    return HOURS_PER_MONTH * sum(PRICES[kind] * count / 10_000 for kind, count in requests.items())


def _line(size: int, role: str, processors: Sequence[Processor], whole: float) -> dict[str, str | float]:
    counts = [_by_kind(processor) for processor in processors]
    return {
        "processors": size,
        "role": role,
        **{kind: statistics.fmean(count[kind] for count in counts) for kind in PRICES},
        "USD/month": statistics.fmean(map(_dollars, counts)),
        "USD/month, all": whole,
    }

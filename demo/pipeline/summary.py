"""The figures of a run: what was lost, how soon it was mended, and what it cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demo.pipeline.faults import Faults
    from demo.pipeline.observed import Observed
    from demo.pipeline.owners import Takeover
    from demo.pipeline.processes import System

PRICES = {"blob reads": 0.004, "blob writes": 0.05, "lease requests": 0.004, "table requests": 0.00036}
"""US dollars for 10,000: East US, general-purpose v2, hot, locally redundant, August 2026. Deletes cost nothing."""


def summary(
    system: System, observed: Observed, faults: Faults, taken: Sequence[Takeover], seconds: float
) -> list[tuple[str, str]]:
    """Names and figures. seconds: of the whole run."""
    lines = [(kind, str(count)) for kind, count in faults.counts.items()]
    lines.append(("faults before the last one was mended", str(sum(fault.again for fault in faults.faults))))
    for name, stream in observed.streams.items():
        epochs = len({batch.epoch for batch in stream.batches})
        lines.append((f"stream {name}", f"{len(stream.batches)} entries, {stream.rows:,} rows, {epochs} epochs"))
    lines.append(("versions of the planes", str(max(observed.versions, default=0))))
    for kind in dict.fromkeys(each.kind for each in taken):
        of_kind = [each for each in taken if each.kind == kind]
        lines.append((f"tasks begun elsewhere, {kind}", _takeover_text(of_kind)))
    return [*lines, *_request_lines(system, seconds)]


def _takeover_text(taken: Sequence[Takeover]) -> str:
    alone = [each for each in taken if each.alone]
    text = f"{len(taken)}, longest {max(each.seconds for each in taken):.1f} s"
    if not alone:
        return text
    longest = max(alone, key=lambda each: each.seconds - each.bound)
    late = sum(each.seconds > each.bound for each in alone)
    bound = f"{longest.seconds:.1f} s (bound {longest.bound:.0f} s), {late} later"
    return f"{text}; without another fault {len(alone)}, longest {bound}"


def _request_lines(system: System, seconds: float) -> list[tuple[str, str]]:
    counts = Counter(system.proxy.requests)
    dollars = sum(PRICES.get(kind, 0) * count / 10_000 for kind, count in counts.items())
    hourly = 3600 / seconds
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    fates = ", ".join(f"{count:,} {fate.value}" for fate, count in system.proxy.fates.items())
    return [
        ("requests", f"{kinds}; {sum(counts.values()) * hourly:,.0f} per hour, {dollars * hourly:.2f} USD per hour"),
        ("what became of them", f"{fates}, {system.proxy.refused:,} found no emulator"),
    ]

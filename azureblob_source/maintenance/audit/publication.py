"""Until when blobs were published, by the service's clock: what was written later was written again. Pure.

    entry v put ≤ its blobs published ≤ any put that says so: a later entry with `published` ≥ v, a checkpoint at ≥ v

A listing shows when entries, checkpoints and blobs were written last. Times of a container that was copied say nothing:
of an entry that was not put near its own timestamp nothing is concluded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.maintenance.audit.live_index import Sweep

Array = np.ndarray[Any, Any]

NEAR = 600.0
"""Seconds from the timestamp of an entry, by a driver's clock, to its put."""
SLACK = 60.0
"""Seconds by which clocks of the service may differ."""


def written_again(sweep: Sweep, published_at: Sequence[tuple[int, float]], until: int) -> Array:
    """Places of live blobs, of versions up to `until`, that were written after they had been published.

    published_at: versions up to which all was published, each with the time of a put that says so.
    """
    order = np.argsort(np.frombuffer(sweep.versions, np.int64)) if sweep.versions else np.array([], np.int64)
    versions = np.frombuffer(sweep.versions, np.int64)[order] if len(order) else order
    put_at = np.frombuffer(sweep.put_at, np.float64)[order] if len(order) else np.array([], float)
    points = [*published_at, *sweep.checkpoints.items()]
    if not points or not len(versions):
        return np.array([], np.int64)
    points.sort()
    known = np.array([version for version, _ in points], np.int64)
    latest = np.minimum.accumulate(np.array([at for _, at in points])[::-1])[::-1]
    of, rows_of = sweep.index.versions, sweep.index.rows_of
    bound = np.append(latest, np.inf)[np.searchsorted(known, of)]
    place = np.minimum(np.searchsorted(versions, rows_of), len(versions) - 1)
    near = (versions[place] == rows_of) & (np.abs(put_at[place] - sweep.index.committed / 1000) <= NEAR)
    return np.flatnonzero(sweep.seen & near & (of <= until) & (sweep.modified > bound + SLACK))

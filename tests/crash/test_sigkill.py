"""A streaming query over all flights survives twenty kills of all its processes, at random moments."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.crash.flights import flights, write_files
from tests.crash.killing import FlightsJob, Hit, Killings, Moment
from tests.crash.visible_blobs import VisibleBlobs, assert_exactly_once

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

FILES, FILES_PER_BATCH = 160, 2
KILLS = 20
IN_A_BATCH = (Hit.BEGUN, Hit.STAGING, Hit.PUBLISHING, Hit.PUBLISHED)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)  # most of it waits for Spark to start, on a machine that may be busy
@pytest.mark.parametrize("seed", [1])
def test_each_flight_is_published_once_when_the_query_is_killed_at_random_moments(
    azurite: Azurite, container_name: str, tmp_path: Path, seed: int
) -> None:
    table = flights()
    write_files(table, tmp_path / "input", FILES)
    job = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", tmp_path)
    visible = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    killings = Killings(job, visible, after_kill=visible.assert_no_row_twice)
    rng = random.Random(seed)

    started = time.monotonic()
    killings.run([Moment.draw(rng) for _ in range(KILLS)])

    hits = Counter(killings.hits)
    lines = [f"{count:3d} × {hit.value}" for hit, count in hits.most_common()]
    print(f"{KILLS} kills in {time.monotonic() - started:.0f} s", *lines, sep="\n")  # noqa: T201 - shown by -s
    assert KILLS == len(killings.hits)
    assert sum(hits[hit] for hit in IN_A_BATCH) >= KILLS // 3
    assert_exactly_once(visible, table, batches=FILES // FILES_PER_BATCH)

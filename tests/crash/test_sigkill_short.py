"""A streaming query survives three kills, each in another part of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.flights import flights, write_files
from tests.crash.killing import FlightsJob, Killings, Moment
from tests.crash.visible_blobs import VisibleBlobs, assert_exactly_once

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

FILES, FILES_PER_BATCH, ROWS = 28, 2, 14_000
MOMENTS = (Moment("begun", 1, 0.5), Moment("committed", 2, 0.0), Moment("begun", 3, 0.15))


@pytest.mark.spark
@pytest.mark.timeout(600)  # most of it waits for Spark to start, on a machine that may be busy
def test_each_row_is_published_once_when_the_query_is_killed_three_times(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    table = flights(ROWS)
    write_files(table, tmp_path / "input", FILES)
    job = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", tmp_path)
    visible = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    killings = Killings(job, visible, after_kill=visible.assert_no_row_twice)

    killings.run(MOMENTS)

    assert len(MOMENTS) == len(killings.hits)
    assert_exactly_once(visible, table, batches=FILES // FILES_PER_BATCH)

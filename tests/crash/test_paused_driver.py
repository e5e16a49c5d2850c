"""A paused driver that continues after another driver has done its work publishes nothing more."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.crash.flights import flights, write_files
from tests.crash.killing import STUCK_SECONDS, FlightsJob, Killings, Moment
from tests.crash.visible_blobs import VisibleBlobs, assert_exactly_once
from tools.sessions import signal_session

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

FILES, FILES_PER_BATCH, ROWS = 16, 2, 8_000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "moment", [Moment("begun", 2, 0.15), Moment("committed", 2, 0.0)], ids=["staging", "publishing"]
)
def test_each_row_is_published_once_when_a_paused_driver_continues_after_its_successor(
    azurite: Azurite, container_name: str, tmp_path: Path, moment: Moment
) -> None:
    table = flights(ROWS)
    write_files(table, tmp_path / "input", FILES)
    job = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", tmp_path)
    visible = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)

    with job.life() as paused:
        assert Killings(job, visible, after_kill=visible.assert_no_row_twice).reached(moment, paused)
        assert signal_session(paused, signal.SIGSTOP) > 0
        job.run()
        before = visible.state()
        assert signal_session(paused, signal.SIGCONT) > 0
        paused.wait(STUCK_SECONDS)

    assert before.published == visible.state().published
    assert before.entries == visible.state().entries
    assert_exactly_once(visible, table, batches=FILES // FILES_PER_BATCH)

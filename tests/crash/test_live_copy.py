"""One streaming query writes a stream, a second one copies it at the same time; both are killed at random."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.crash.flights import flights, write_files
from tests.crash.killing import FlightsJob, live
from tests.crash.visible_blobs import VisibleBlobs, assert_exactly_once

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

FILES_PER_BATCH = 2


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("files", "kills"),
    [
        # Most of it waits for Spark to start, on a machine that may be busy.
        pytest.param(20, {"writer": 1, "copier": 1}, id="once each", marks=pytest.mark.timeout(900)),
        pytest.param(120, {"writer": 6, "copier": 8}, id="often", marks=[pytest.mark.alone, pytest.mark.timeout(1800)]),
    ],
)
def test_a_copy_made_while_both_are_killed_equals_the_original(
    azurite: Azurite, container_name: str, tmp_path: Path, files: int, kills: dict[str, int]
) -> None:
    table = flights(files * 500)
    write_files(table, tmp_path / "input", files)
    writer = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", _folder(tmp_path, "writer"))
    copier = FlightsJob(
        azurite,
        f"{container_name}/copy",
        writer.path,
        _folder(tmp_path, "copier"),
        module="tests.crash.copy_job",
    )
    original = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    copy = VisibleBlobs.of(azurite.connection_string, container_name, "copy", table.schema)

    jobs = {"writer": writer, "copier": copier}
    died = live(jobs, kills, random.Random(files), ending={"writer"}, after_kill=lambda _: copy.assert_no_row_twice())
    FlightsJob(
        azurite, copier.path, writer.path, copier.folder, module=copier.module, arguments=["--available-now"]
    ).run()

    assert Counter(kills) == died
    assert_exactly_once(original, table, batches=files // FILES_PER_BATCH)
    rows = copy.rows()
    assert table.num_rows == rows.num_rows
    assert table.equals(rows)
    batches = copy.state().entries
    assert 1 == len({entry["transaction"]["id"] for entry in batches})
    assert list(range(len(batches))) == [entry["transaction"]["version"] for entry in batches]


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder

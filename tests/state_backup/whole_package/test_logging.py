"""What a writer, a restore and a sweep log at INFO."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from state_backup.record.names import StateNames
from state_backup.restoring.restore import restore
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.state_backup.states import STATE, TREES, new_account, state_in, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "state_backup")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since the last call; a time is `T`."""
    found = [re.sub(r"\d+\.\d\d s", "T s", each.getMessage()) for each in caplog.records]
    caplog.clear()
    return found


def test_an_epoch_a_backup_and_a_restore_are_one_line_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = state_in(new_account().container("box"))
    writer = open_state(place, TaskIdentity("flights"), WriterSettings(epoch=4))
    assert [f"state {STATE}: epoch 4 begins, the newest checkpoint is none"] == lines(caplog)
    live = write(tmp_path / "live", TREES[0])
    checkpoint = writer.back_up({"store": live})
    done = writer.backed_up["store"]
    files, size = done.uploaded_files, done.uploaded_bytes
    what = f"{files} files with {size} bytes uploaded, 0 files kept, in T s"
    assert [f"state {STATE}: checkpoint {checkpoint.id} is committed, {what}"] == lines(caplog)
    assert (3, 5) == (files, size)
    writer.back_up({"store": live})
    assert f"0 files with 0 bytes uploaded, {files} files kept, in T s" in lines(caplog)[0]
    open_state(place, TaskIdentity("flights"), WriterSettings(epoch=4))
    assert [] == lines(caplog), "the epoch has begun before"
    restored = restore(place, {"store": tmp_path / "again"}, checkpoint_id=str(checkpoint.id))
    what = f"{files} files with {size} bytes downloaded, {restored.kept_files} files were there, in T s"
    assert [f"state {STATE}: checkpoint {checkpoint.id} is restored, {what}"] == lines(caplog)


def test_a_sweep_that_deletes_is_one_line(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    container = new_account().container("box")
    place = state_in(container)
    open_state(place, TaskIdentity("flights")).back_up({"store": write(tmp_path / "live", TREES[0])})
    for number in range(2):
        container.put(f"{StateNames(STATE).prefixes[0]}waste-{number}", b"12345")
    lines(caplog)
    sweep(place, plan_sweep(place, min_age=0))
    text = f"state {STATE}: a sweep has deleted 2 blobs with 10 bytes, and left 0 that are young"
    assert [text] == lines(caplog)
    sweep(place, plan_sweep(place, min_age=0))
    assert [] == lines(caplog)

"""What is counted and measured, as an OpenTelemetry SDK gets it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, LostAnswer, Reset, TimeOut, on
from azure_account.memory.service import MemoryService
from foundation.errors import FencedError
from state_backup import metrics
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import open_state
from state_backup.restoring.restore import restore
from state_backup.sweeping.sweep import plan_sweep, sweep
from tests.exported import Exported, exporting
from tests.state_backup.states import STATE, TREES, new_account, state_in, write

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    with exporting(monkeypatch, metrics.METERS) as found:
        yield found


def transferred(exported: Exported, *names: str, **attributes: str) -> list[float]:
    return [exported.of(name, **attributes) for name in names]


def back_up_all(account: MemoryAccount, tmp_path: Path) -> None:
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    for tree in TREES[:3]:
        writer.back_up({"store": write(tmp_path / "live", tree)})


@pytest.mark.usefixtures("no_packs")
def test_a_backup_counts_what_it_uploads_and_what_it_retains_for_each_store(exported: Exported, tmp_path: Path) -> None:
    account = new_account()
    back_up_all(account, tmp_path)
    names = ("filesUploaded", "bytesUploaded", "filesRetained", "bytesRetained")
    # Three, two and one file are new; none, three and two are not: `3.sst` has what `1.sst` had.
    assert [6, 10, 5, 10] == transferred(exported, *names, state=STATE, store="store")
    assert [3, 0] == transferred(exported, "checkpointsCommitted", "backupsFailed", state=STATE)
    assert time.time() - 60 < exported.of("lastCheckpoint", state=STATE) <= time.time()
    assert 3 == exported.of("dirDiffSeconds", store="store") == exported.of("uploadSeconds", store="store")
    left = [
        blob.name for blob in account.container("box").list(f"{STATE}/") if not blob.name.endswith("checkpoint.json")
    ]
    assert 6 + 3 - len(left) == exported.of("blobsDeleted") > 0


@pytest.mark.parametrize("fault", [LostAnswer(), Reset(), TimeOut()])
def test_requests_that_are_repeated_count_once(exported: Exported, tmp_path: Path, fault: LostAnswer) -> None:
    account = new_account()
    faults = [on(operation, fault, times=2) for operation in ("put", "delete", "set_tags")]
    back_up_all(account.restarted(FaultInjector(*faults)), tmp_path)
    assert [6, 10, 3] == transferred(exported, "filesUploaded", "bytesUploaded", "checkpointsCommitted")
    get = FaultInjector(on("get", fault, skip=2, times=3))
    restore(state_in(account.restarted(get).container("box")), {"store": tmp_path / "restored"})
    assert [3, 7] == transferred(exported, "filesRestored", "bytesRestored")


@pytest.mark.usefixtures("no_packs")
def test_what_is_not_committed_is_not_counted_as_a_checkpoint(exported: Exported, tmp_path: Path) -> None:
    account = new_account()
    old = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    open_state(state_in(account.container("box")), TaskIdentity("flights"))
    with pytest.raises(FencedError):
        old.back_up({"store": write(tmp_path / "live", TREES[0])})
    assert [1, 0] == transferred(exported, "backupsFailed", "lastCheckpoint")
    assert [3, 0, 0] == transferred(exported, "filesUploaded", "filesRetained", "checkpointsCommitted")
    container = account.container("box")
    assert 4 == sweep(state_in(container), plan_sweep(state_in(container), min_age=0))
    assert 4 == exported.of("blobsDeleted", state=STATE)


def test_a_restore_counts_what_it_downloads_keeps_undeletes_and_passes_over(exported: Exported, tmp_path: Path) -> None:
    account = MemoryAccount(MemoryService(soft_delete=100))
    account.container("box").create()
    back_up_all(account, tmp_path)
    live, container = write(tmp_path / "live", {"other name": b"two"}), account.container("box")
    restored = restore(state_in(container), {"store": live})
    assert [2, 4, 1, 3] == transferred(exported, "filesRestored", "bytesRestored", "filesKept", "bytesKept")
    assert [1, 1] == transferred(exported, "restoreSeconds", "getSnapshotIndexSeconds")
    container.delete(restored.checkpoint.indexes["store"])
    restore(state_in(container), {"store": live})
    assert [1, 0] == transferred(exported, "blobsUndeleted", "checkpointsPassedOver")
    container.delete(restored.checkpoint.indexes["store"])
    account.clock.sleep(100)
    restore(state_in(container), {"store": live})
    assert [1, 1] == transferred(exported, "blobsUndeleted", "checkpointsPassedOver")


def test_the_page_lists_all_instruments_and_their_units(exported: Exported) -> None:
    counted = metrics.StateMetrics(STATE)
    for name in metrics.COUNTERS:
        counted.count(name)
    for name in metrics.HISTOGRAMS:
        with counted.measured(name):
            pass
    for name in metrics.GAUGES:
        counted.set(name, 1)
    page = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text("utf-8")
    named = re.findall(r"^\| `state_backup\.(\w+)` \| `(\S+)` \|", page, re.MULTILINE)
    found = exported.instruments()
    assert {(name.lower(), unit) for name, unit in named} == {(name, metric.unit) for name, metric in found.items()}

"""Each alert fires when what it is for has happened, and not before; its expression names what the code exports."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from adjunct_store.metrics import LastVersion, StoreMetrics
from azure_account import open_account
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector, Reset, on
from azureblob_source import metrics
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from azureblob_source.read.stream_source import StreamReader
from azureblob_source.write.planning import prepare_write
from azureblob_source.write.sink import BatchWriter
from control_messages.partition_tracker import receive
from control_messages.spark.metrics import measure
from coordination.metrics import ProcessorMetrics
from coordination.spark import QueryLimits, TaskQueries
from foundation.clock import SYSTEM_CLOCK, ManualClock
from foundation.errors import FencedError, NotFoundError, TransientError
from foundation.meters import Meters
from state_backup.backup.settings import TaskIdentity
from state_backup.backup.writer import StateWriter, open_state
from state_backup.restoring.restore import restore
from tests.alerts.scrapes import METERS, RULES, Process, Scrapes, check, rules
from tests.azureblob_source.write.sink_rows import ACCOUNT, committer, new_account, plan_of, stage_rows
from tests.control_messages.trackers import EMPTY, at, end
from tests.coordination.processors.rounds import TIMING, Job, Member
from tests.state_backup.states import STATE, TREES, state_in, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.azurite import Azurite

SCHEMA = StructType([StructField("id", LongType())])
ROWS = pa.RecordBatch.from_pydict({"id": [1, 2]})


@pytest.fixture
def options(azurite: Azurite, container_name: str) -> dict[str, str]:
    """Of the stream `flights`."""
    return {"connectionString": azurite.connection_string, "path": f"{container_name}/flights"}


def commit(options: dict[str, str]) -> None:
    writer = BatchWriter(prepare_write(options, SCHEMA, {}, overwrite=False), overwrite=False)
    writer.commit([writer.write(iter([ROWS]))])


def test_no_commit(
    container_name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scrapes = Scrapes(begun=SYSTEM_CLOCK.now())
    for number in range(2):  # a process that commits may end at once
        process = Process(monkeypatch, f"worker-{number}")
        commit(options)
        scrapes.take(number, process)
        scrapes.end(number + 5, process)
    check(tmp_path, scrapes, "AzureblobNoCommit", fires={40: {"stream": f"{container_name}/flights"}}, quiet=(1, 29))


def test_tasks_fail(
    container_name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield ROWS
        message = "the disk is gone"
        raise OSError(message)

    scrapes = Scrapes()
    writer = BatchWriter(prepare_write(options, SCHEMA, {}, overwrite=False), overwrite=False)
    for number in range(4):  # Spark's attempts, each in a process of its own
        process = Process(monkeypatch, f"worker-{number}")
        with pytest.raises(OSError, match="disk"):
            writer.write(broken())
        scrapes.take(5 + number, process)
    check(tmp_path, scrapes, "AzureblobTasksFail", fires={10: {"name": container_name}}, quiet=(7, 40))


def test_requests_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "worker")
    account = new_account()
    plan = plan_of(pa.schema([("id", pa.int64())]))
    for number in range(60):
        faults = FaultInjector(on("stage_block", Reset(), times=2))
        staged = stage_rows(account.restarted(faults).container("container"), plan, [ROWS], seed=number)
        metrics.count(staged.metrics, system="container", source=f"q/{number}")
        scrapes.take(1 + number // 20, process)
    check(tmp_path, scrapes, "AzureblobRequestsFail", fires={4: {"name": "container"}}, quiet=(2, 30))


def test_corrupt_blobs(
    container_name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "worker")
    commit(options)
    scrapes.take(0, process)
    container = open_account({"connectionString": options["connectionString"]}).container(container_name)
    (blob,) = [blob.name for blob in container.list("flights/") if "/_" not in blob.name]
    whole = container.get(blob).data
    container.delete(blob)
    container.put(blob, whole[: len(whole) // 2])
    plan = ReadPlan(source_options({**options, "ignoreCorruptBlobs": "true"}, {}))
    reader = SnapshotReader(plan, spark_schema(plan))
    assert 0 == sum(batch.num_rows for each in reader.partitions() for batch in reader.read(each))
    scrapes.take(5, process)
    check(tmp_path, scrapes, "AzureblobCorruptBlobs", fires={6: {"name": container_name}}, quiet=(4, 80))


def test_the_backlog_grows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    account = new_account()
    container, rows = account.container("container"), plan_of(pa.schema([("id", pa.int64())]))
    writes = itertools.count()

    def write_one() -> None:
        number = next(writes)
        driver = committer(container, rows, seed=number)
        driver.commit([stage_rows(container, rows, [ROWS], seed=number)], None, overwrite=False)

    write_one()
    scrapes, process = Scrapes(), Process(monkeypatch, "driver")
    plan = ReadPlan(source_options({"path": "container/flights", "maxBlobsPerTrigger": "1", **ACCOUNT}, {}))
    plan.container = container
    reader: Any = StreamReader(plan, SCHEMA)
    offset = reader.initialOffset()
    for minute in range(70):
        for _ in range(2 * (minute < 45)):  # then its reader catches up
            write_one()
        offset = reader.latestOffset(offset, reader.getDefaultReadLimit())
        scrapes.take(minute, process)
    labels = {"stream": "container/flights"}
    check(tmp_path, scrapes, "AzureblobBacklogGrows", fires={44: labels}, quiet=(20, 69))


def shown(member: Member, name: str) -> ProcessorMetrics:
    """The gauges of a processor, as its coordinator shows them."""
    metrics = ProcessorMetrics("flights", name)
    metrics.observe(member.participant.gauges)
    return metrics


def test_no_leader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "driver")
    job = Job(["a", "b"])
    job.join("one")
    job.settle(9)
    gauges = shown(job.members[0], "one")
    scrapes.take(0, process)
    gauges.close()
    scrapes.end(5, process)
    check(tmp_path, scrapes, "CoordinationNoLeader", fires={14: {"job": "flights"}}, quiet=(4,))


def test_another_leader_in_time_is_no_alert(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "drivers")
    job = Job(["a", "b"])
    one, two = job.join("one"), job.join("two")
    job.settle(9)
    gauges = [shown(member, name) for member, name in ((one, "one"), (two, "two"))]
    scrapes.take(0, process)
    leads = job.leader
    gauges[leads is two].close()
    job.members.remove(leads)
    scrapes.take(5, process)
    job.settle(12)
    scrapes.take(6, process)
    check(tmp_path, scrapes, "CoordinationNoLeader", fires={}, quiet=(4, 5, 7, 30))
    check(tmp_path, scrapes, "CoordinationTasksMissing", fires={}, quiet=(4, 30))
    gauges[leads is one].close()


def test_tasks_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "drivers")
    job = Job(["a", "b"])
    one, two = job.join("one"), job.join("two")
    job.settle(9)
    gauges = [shown(one, "one"), shown(two, "two")]
    scrapes.take(0, process)
    gauges[job.leader is one].close()  # who does not lead is gone, and nobody takes its task over
    scrapes.take(5, process)
    gauges[job.leader is two].close()
    check(tmp_path, scrapes, "CoordinationTasksMissing", fires={20: {"job": "flights"}}, quiet=(4, 9))


def test_a_query_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Ticking(ManualClock):
        def monotonic(self) -> float:
            self.advance(1)
            return super().monotonic()

    def begin(task: str, epoch: int) -> NoReturn:
        raise ValueError(f"{task} in epoch {epoch}")

    scrapes, process = Scrapes(), Process(monkeypatch, "driver")
    queries = TaskQueries(begin, limits=QueryLimits(restarts=2), clock=Ticking())
    joined: Any = SimpleNamespace(
        start=lambda: queries.on_new_job_model({"joined": 1}),
        stop=lambda: None,
        metrics=ProcessorMetrics("flights", "one"),
    )
    with pytest.raises(ValueError, match="joined in epoch 1"):
        queries.run(joined)
    scrapes.take(5, process)
    fires = {6: {"job": "flights", "task": "joined"}}
    check(tmp_path, scrapes, "CoordinationQueryFails", fires=fires, quiet=(4, 30))


def test_members_are_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "driver")
    job = Job(["a"])
    member = job.join("one")
    job.settle(9)
    for number in range(3):
        member.faults = FaultInjector()
        job.clock.advance(TIMING.death + 1)  # it was suspended
        for act in (member.participant.expire, member.participant.elect, member.participant.poll):
            with suppress(TransientError):
                act()
        job.settle(20)
        scrapes.take(5 + number, process)
    check(tmp_path, scrapes, "CoordinationMembersLate", fires={9: {"job": "flights"}}, quiet=(6, 80))


def test_a_watermark_is_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "worker")
    tracker = EMPTY
    for minute in range(60):
        now = 60_000 * minute
        marks = [at("a", now), at("b", now if minute < 20 else 60_000 * 20)]  # task b has hung since
        tracker = receive(tracker, marks, now).tracker
        measure(tracker, now)
        scrapes.take(minute, process)
    labels = {"stream": EMPTY.stream, "partition": "0"}
    check(tmp_path, scrapes, "ControlMessagesWatermarkHeld", fires={45: labels}, quiet=(18, 33))


def test_rows_differ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "worker")
    mark = replace(at("a", 70, 1), sequence=1, writer=0, rows=3)
    measure(receive(EMPTY, [mark], 1_000, rows=3).tracker, 1_000)
    scrapes.take(0, process)
    measure(receive(EMPTY, [mark, end("a", 1)], 1_000, rows=2).tracker, 2_000)
    scrapes.take(5, process)
    labels = {"stream": EMPTY.stream, "partition": "0"}
    check(tmp_path, scrapes, "ControlMessagesRowsDiffer", fires={20: labels}, quiet=(4, 9))


def backed_up(account: MemoryAccount, folder: Path) -> StateWriter:
    writer = open_state(state_in(account.container("box")), TaskIdentity("flights"))
    for tree in TREES[:3]:
        writer.back_up({"store": write(folder / "live", tree)})
    return writer


@pytest.fixture
def account() -> MemoryAccount:
    made = MemoryAccount()
    made.container("box").create()
    return made


def test_backups_fail(account: MemoryAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "driver")
    writer = backed_up(account, tmp_path)
    scrapes.take(0, process)
    open_state(state_in(account.container("box")), TaskIdentity("flights"))
    for number in range(3):
        with pytest.raises(FencedError):
            writer.back_up({"store": write(tmp_path / "live", TREES[0])})
        scrapes.take(5 + number, process)
    check(tmp_path, scrapes, "StateBackupFails", fires={8: {"state": STATE}}, quiet=(6, 30))


def test_the_last_backup_is_old(account: MemoryAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(begun=SYSTEM_CLOCK.now()), Process(monkeypatch, "driver")
    backed_up(account, tmp_path)
    scrapes.take(0, process)
    check(tmp_path, scrapes, "StateBackupOld", fires={70: {"state": STATE}}, quiet=(1, 59))


def test_blobs_of_backups_are_gone(account: MemoryAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process = Scrapes(), Process(monkeypatch, "driver")
    writer, container = backed_up(account, tmp_path), account.container("box")
    scrapes.take(0, process)
    assert writer.newest is not None
    container.delete(writer.newest.indexes["store"])
    with suppress(NotFoundError):
        restore(state_in(container), {"store": tmp_path / "restored"})
    scrapes.take(5, process)
    check(tmp_path, scrapes, "StateBackupBlobsGone", fires={6: {"state": STATE}}, quiet=(4, 80))


def test_a_store_is_not_filled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scrapes, process, clock = Scrapes(), Process(monkeypatch, "driver"), ManualClock()
    fill = StoreMetrics("box", "stores/planes")
    for minute in range(100):
        if minute in (0, 10):
            fill.show(LastVersion(minute, 0, 1000, 5, 65536, bootstrapped=True, published=clock.monotonic()), clock)
        scrapes.take(minute, process)
        clock.advance(60)
    fill.close()
    scrapes.take(100, process)
    store = {"store": "box/stores/planes"}
    check(tmp_path, scrapes, "AdjunctStoreStale", fires={75: store}, quiet=(69, 110))
    check(tmp_path, scrapes, "AdjunctStoreFillGone", fires={110: store}, quiet=(99,))


def _exported(monkeypatch: pytest.MonkeyPatch, meters: Meters) -> set[str]:
    """The names of all series that the instruments of a package can have."""
    process = Process(monkeypatch, "any")
    for kind, table in meters._tables.items():
        for name in table:
            match kind:
                case "counter" | "up_down_counter":
                    meters.instrument(kind, name).add(1)
                case "histogram":
                    meters.instrument(kind, name).record(1)
                case "gauge":
                    meters.instrument(kind, name).set(1)
    values = dict.fromkeys(meters._tables.get("observable_gauge", {}), 1.0)
    if values:
        meters.observe("any", {}, lambda: values)
    return {name for name, _ in process.scrape()}


def test_rules_name_series_that_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = {name for meters in METERS for name in _exported(monkeypatch, meters)}
    packages = "|".join(meters._package for meters in METERS)
    named = {name for rule in rules().values() for name in re.findall(rf"\b(?:{packages})_\w+", rule["expr"])}
    assert len(named) > len(METERS)
    assert set() == named - exported


def test_each_alert_has_a_test_and_a_runbook() -> None:
    page = (RULES.parent / "OPERATIONS.md").read_text("utf-8")
    tests = Path(__file__).read_text("utf-8")
    for name, rule in rules().items():
        assert f'"{name}"' in tests, name
        assert f"docs/OPERATIONS.md#{name.lower()}" == rule["annotations"]["runbook"]
        assert f"### {name}\n" in page
    assert set(rules()) == set(re.findall(r"^### ([A-Z]\w+)$", page, re.MULTILINE))

"""What is counted and measured, as an OpenTelemetry SDK gets it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import TimeOut, on
from coordination import metrics
from foundation.errors import TransientError
from tests.coordination.processors.rounds import TIMING, Job, Runs
from tests.exported import Exported, exporting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TASKS = [f"t{number}" for number in range(6)]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    with exporting(monkeypatch, metrics.METERS) as found:
        yield found


def test_heartbeats_models_and_tasks_are_counted_for_each_processor(exported: Exported) -> None:
    job = Job(TASKS)
    job.join("one")
    job.settle(9)
    job.join("two")
    job.settle(9)

    sent = sum(
        each.faults.attempts[n].operation == "replace_entity" for each in job.members for n in range(each.faults.count)
    )
    assert sent == exported.of("heartbeatsSent", job="flights") > 8
    assert 0 == exported.of("heartbeatsFailed")
    assert 2 == exported.of("jobModelsPublished", processor="one"), "one for itself, and one for both"
    assert (6, 3) == (exported.of("tasksBegun", processor="one"), exported.of("tasksStopped", processor="one"))
    assert (3, 0) == (exported.of("tasksBegun", processor="two"), exported.of("tasksStopped", processor="two"))
    assert 2 == exported.of("barrierSeconds")
    assert {"begin": 2, "stop": 1} == {call: exported.of("listenerSeconds", call=call) for call in ("begin", "stop")}


def test_a_barrier_is_measured_from_start_to_end_and_a_call_of_the_listener_as_long_as_it_takes(
    exported: Exported,
) -> None:
    job = Job(TASKS)

    class Slow(Runs):
        def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
            job.clock.advance(7)
            super().on_new_job_model(tasks)

    job.join("one", listener=Slow())
    job.settle(9)
    assert [7] == [point.sum for point in exported.points("listenerSeconds")]
    before = exported.points("barrierSeconds")[0].sum
    job.join("two")
    job.settle(9)
    assert before + TIMING.heartbeat == exported.points("barrierSeconds")[0].sum


def test_dead_processors_barriers_in_vain_and_orphans_are_counted_by_the_leader(exported: Exported) -> None:
    job = Job(TASKS)
    job.join("one")
    two = job.join("two")
    job.settle(9)
    job.members.remove(two)
    job.settle(12)
    job.round()
    assert 3 == exported.of("tasksReassigned", processor="one")
    assert 1 == exported.of("processorsForgotten", processor="one")
    assert 0 == exported.of("barriersTimedOut")

    three = job.join("three")
    job.settle(9)
    job.members.remove(three)
    job.join("four")
    row = next(row for row in job.table.rows() if row.processor == three.id)
    for number in range(int(TIMING.barrier / TIMING.heartbeat) + 8):  # it lives, but does not do what the model says
        job.table.put(replace(row, counter=row.counter + number + 1), leads=False)
        job.round()
    assert 1 == exported.of("barriersTimedOut", processor="one")
    job.settle(30)


def test_heartbeats_that_fail_and_rejoins_are_counted(exported: Exported) -> None:
    job = Job(TASKS)
    one = job.join("one")
    job.settle(9)
    refused = job.join("two", on("replace_entity", TimeOut(), times=8))
    job.members.remove(refused)
    for number in range(1, 4):
        with pytest.raises(TransientError):
            refused.participant.beat()
        assert number == exported.of("heartbeatsFailed", processor="two")
    job.clock.advance(TIMING.death)
    with pytest.raises(TransientError):
        refused.participant.poll()
    assert (0, 0) == (exported.of("rejoins"), exported.of("heartbeatsSent", processor="two"))
    refused.participant.poll()
    assert (1, 1) == (exported.of("rejoins"), exported.of("heartbeatsSent", processor="two"))
    assert one.running


def test_gauges_show_what_the_leader_and_a_follower_know_until_they_close(exported: Exported) -> None:
    job = Job(TASKS)
    one, two = job.join("one"), job.join("two")
    watching = [metrics.ProcessorMetrics("flights", name) for name in ("one", "two")]
    for each, member in zip(watching, job.members, strict=True):
        each.observe(member.participant.gauges)
    assert (0, 0) == (exported.of("leads"), len(exported.points("epoch")))
    job.settle(9)
    found = one.election.lease.read()
    assert found is not None
    for name in ("one", "two"):
        assert found[0].epoch == exported.of("epoch", processor=name)
        assert job.model().current.version == exported.of("jobModelVersion", processor=name)
        assert 3 == exported.of("tasksRunning", processor=name)
    assert (1, 0) == (exported.of("leads", processor="one"), exported.of("leads", processor="two"))
    assert [("one", 2)] == [
        (point.attributes["processor"], point.value) for point in exported.points("processorsAlive")
    ]

    job.clock.advance(TIMING.death)
    assert 0 == exported.of("leads"), "the deadline of the lease has passed"
    for each in watching:
        each.close()
    assert not exported.points("leads")
    assert two.running


def test_the_page_lists_all_instruments_and_their_units(exported: Exported) -> None:
    counted = metrics.ProcessorMetrics("flights", "one")
    for name in metrics.COUNTERS:
        counted.count(name)
    for name in metrics.HISTOGRAMS:
        counted.record(name, 1.5)
    counted.observe(lambda: dict.fromkeys(metrics.GAUGES, 3))
    page = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text("utf-8")
    named = re.findall(r"^\| `coordination\.(\w+)` \| `(\S+)` \|", page, re.MULTILINE)
    found = exported.instruments()
    counted.close()
    assert {(name.lower(), unit) for name, unit in named} == {(name, metric.unit) for name, metric in found.items()}
    assert {"job": "flights", "processor": "one"} == dict(found["leads"].data.data_points[0].attributes)

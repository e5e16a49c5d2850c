"""Kafka as the transport of control messages: a real broker, and bounded jobs that die, end and run again."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.avro_to_parquet import NOT_TO_BE_HAD
from tests.spark.kafka_job import PARTITIONS, TASKS
from tools.kafka import running_kafka

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_bounded_jobs_and_their_consumer_over_kafka(tmp_path: Path) -> None:
    with running_kafka(tmp_path) as broker:
        job = [sys.executable, "-m", "tests.spark.kafka_job", broker, str(tmp_path)]
        done = subprocess.run(job, capture_output=True, text=True, check=False)
    if done.returncode == NOT_TO_BE_HAD:
        pytest.skip(f"Kafka's package cannot be had: {done.stderr[-500:]}")
    assert 0 == done.returncode, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])

    died, first, second, after_all = found["generations"]
    assert -1 == died
    assert first > 1.6e12, "a topic that exists, without control messages: the time in milliseconds"
    assert [first + 1, first + 2] == [second, after_all], "the last run has written nothing"
    flow = found["flow"]
    assert sorted(range(130)) == sorted(int(message) for _, kind, message, _ in flow if kind == "message")
    announced = sorted((generation, partition, kind) for partition, kind, _, generation in flow if generation)
    assert {
        (generation, partition, "endOfStream") for generation in (first, second) for partition in range(PARTITIONS)
    } == {each for each in announced if each[2] == "endOfStream"}
    assert [(second, 0, "reopened"), (second, 1, "reopened")] == [each for each in announced if each[2] == "reopened"]
    assert_nothing_overtakes(found["topic"], (first, second))


def assert_nothing_overtakes(topic: list[list[Any]], generations: tuple[int, int]) -> None:
    """Each partition has its rows before the watermarks that they allow, and one end of each task and generation."""
    for partition in range(PARTITIONS):
        highest: dict[str, int] = {}
        ends = []
        for number, content in enumerate(content for of, content in topic if of == partition):
            if isinstance(content, int):
                lowest = min(highest.values()) if len(highest) == TASKS else -1
                assert content * 1000 > lowest, (number, content, highest)
            elif "timestamp" in content:
                highest[content["taskName"]] = content["timestamp"]
            else:
                ends.append((content["generation"], content["taskName"]))
        assert [(generation, f"Partition {task}") for generation in generations for task in range(TASKS)] == ends

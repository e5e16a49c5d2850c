"""A tracker as plain values."""

from __future__ import annotations

import pytest

from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore, to_checkpoint
from control_messages.partition_tracker import (
    receive,
)
from tests.control_messages.intermediate import STREAM
from tests.control_messages.trackers import after, at, end, idle


def test_the_checkpoints_have_the_fields_of_samza_s_proposal() -> None:
    tracker = receive(after([at("a", 70), at("b", 40)]), [idle("b"), end("a")], 5).tracker
    of_end, of_watermark = to_checkpoint(tracker)
    assert EndOfStreamCheckpoint(STREAM, 2, ["a"], generation=0, ended=False) == of_end
    assert (
        WatermarkCheckpoint(
            streamId=STREAM,
            totalTasks=2,
            tasksToEventTime={"a": 70, "b": 40},
            generation=0,
            timestampOfLastEmission=70,
            idle=["b"],
            heard={"a": 5, "b": 5},
            since=0,
            partitionCount=0,
            sequences={},
            stale=0,
            staleGeneration=-1,
            isIdle=True,
            risenAt=5,
            rowsRead=0,
            rowsSent=None,
            allCounted=False,
            counted={},
        )
        == of_watermark
    )


def test_two_checkpoints_of_different_moments_are_refused() -> None:
    of_end, _ = to_checkpoint(after([at("a", 70)]))
    _, of_watermark = to_checkpoint(after([at("a", 70, generation=1)]))
    with pytest.raises(ValueError, match="They were not saved in one write"):
        restore(of_end, of_watermark)

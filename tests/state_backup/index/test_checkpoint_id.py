"""Ids of checkpoints rise, whatever the clock does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import CorruptError
from state_backup.index.checkpoint_id import CheckpointId, next_id

TIMES = st.integers(0, 2**63)


def test_it_is_written_as_samza_does() -> None:
    assert "1700000000000-123456" == str(next_id(1_700_000_000_000_123_456, None))
    assert CheckpointId(1_700_000_000_000, 123_456) == CheckpointId.parse("1700000000000-123456")


@given(st.lists(TIMES, min_size=2))
def test_each_id_is_above_the_one_before(times: list[int]) -> None:
    last = None
    for now in times:
        new = next_id(now, last)
        assert last is None or new > last
        assert new == CheckpointId.parse(str(new))
        last = new


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "1-2-3", "a-b", " 1-2", "1-2\n", "\uff19-1"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(CorruptError, match="is no checkpoint id, which is like 1700000000000-123456"):
        CheckpointId.parse(text)

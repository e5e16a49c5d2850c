"""From Arrow batches through tasks, commit, snapshot and splits, and back: every value that is written is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro import CODECS, arrow_schema
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import pack_splits, split_blobs
from tests.arrow_avro.arrow_tables import batches
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows
from tests.scripted_clock import ActingClock


@settings(max_examples=150, deadline=None)
@given(
    batches(),
    st.integers(1, 4),
    st.sampled_from(CODECS),
    st.sampled_from([40, 1000, 10 << 20]),
    st.sampled_from([1, 30, 200, 1 << 20]),
    st.booleans(),
)
def test_any_table_comes_back_value_for_value(
    batch: pa.RecordBatch, copies: int, codec: str, block: int, split_bytes: int, gzipped: bool
) -> None:
    if not batch.num_rows or not batch.num_columns:
        return
    account = new_account()
    container = account.container("container")
    given_options: dict[str, Any] = {"compression__type": "gzip"} if gzipped else {"codec": codec}
    plan = plan_of(batch.schema, maxFlushThresholdSize=block, **given_options)
    staged = stage_rows(container, plan, [batch] * copies)
    committer(container, plan).commit([staged], None)

    snapshot = take_snapshot(CommitLog(container, "flights"), None, ActingClock(lambda _: pytest.fail("waited")))
    read = [
        rows
        for splits in pack_splits(split_blobs(snapshot.blobs, split_bytes), split_bytes)
        for _, rows in read_splits(
            container, splits, SplitSettings(reader=snapshot.reader_schema, columns=None, ignore_corrupt=False)
        )
    ]

    assert all(arrow_schema(snapshot.reader_schema) == rows.schema for rows in read)
    assert repr(batch.to_pylist() * copies) == repr([row for rows in read for row in rows.to_pylist()])

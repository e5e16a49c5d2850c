"""Strategies: any valid control message, and any column of envelopes or payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import strategies as st

from control_messages.messages import EARLIEST, LATEST, ControlMessage, Drain, EndOfStream, Watermark

if TYPE_CHECKING:
    from collections.abc import Sequence

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
maybe_texts = st.none() | texts
generations = st.integers(0, LATEST)
timestamps = st.integers(EARLIEST, LATEST)
sequences = st.none() | st.integers(0, LATEST)
partition_counts = st.none() | st.integers(1, 2**31 - 1)


@st.composite
def control_messages(draw: st.DrawFn) -> ControlMessage:
    task = draw(maybe_texts)
    task_count = 1 if task is None else draw(st.integers(1, 2**31 - 1))
    common = {
        "task": st.just(task),
        "task_count": st.just(task_count),
        "generation": generations,
        "stream": maybe_texts,
        "partition_count": partition_counts,
        "sequence": sequences,
    }
    return draw(
        st.one_of(
            st.builds(Watermark, timestamp=timestamps, idle=st.booleans(), writer=sequences, rows=sequences, **common),
            st.builds(EndOfStream, **common),
            st.builds(Drain, run=maybe_texts, **common),
        )
    )


@st.composite
def columns(draw: st.DrawFn, values: st.SearchStrategy[bytes], kinds: Sequence[pa.DataType]) -> pa.Array:
    """Some of the rows of a longer array, so that offsets do not begin at 0, with nulls or without."""
    kind = draw(st.sampled_from(kinds))
    rows = draw(st.lists(st.one_of(values, st.none()) if draw(st.booleans()) else values, max_size=12))
    first = draw(st.integers(0, len(rows)))
    return pa.array(rows, pa.large_binary()).cast(kind).slice(first, draw(st.integers(0, len(rows) - first)))

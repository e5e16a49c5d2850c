"""Rows as they are stored: all properties, always."""

from __future__ import annotations

import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.memory.account import MemoryAccount
from azure_account.values import Entity
from coordination.processors.coordinator_state import ProcessorDeclaration, ProcessorRow
from coordination.processors.processor_table import ProcessorTable
from foundation.errors import ConfigurationError

ROW = ProcessorRow("one-1", 7, 3, ProcessorDeclaration(14.0, "digest", "one", 60.0, 1_795_331_204, "its listener"))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
seconds = st.floats(0, 1e6)


@given(
    st.builds(
        ProcessorRow,
        st.just("one-1"),
        st.none() | st.integers(0, 2**60),
        st.integers(0, 2**31 - 1),
        st.builds(
            ProcessorDeclaration, seconds.filter(bool), texts, texts, seconds, st.none() | st.integers(0, 2**62), texts
        ),
    )
)
def test_a_row_is_read_back_equal(row: ProcessorRow) -> None:
    account = MemoryAccount()
    table = ProcessorTable(account.table("processors"))
    table.create()
    table.put(row, leads=True)
    assert (row,) == table.rows()
    (listed,) = table.listed()
    assert (row, True) == (listed.row, listed.leads)


def test_a_row_that_lacks_a_property_is_damaged_and_its_processor_may_live_for_a_barrier(
    caplog: pytest.LogCaptureFixture,
) -> None:
    account = MemoryAccount()
    store, table = account.table("processors"), ProcessorTable(account.table("processors"))
    table.create()
    table.put(ROW, leads=False)
    (whole,) = store.query()
    names = set(whole.properties)
    assert {"formatVersion", "liveness", "isLeader", "death", "away", "leads", "name", "tasks", "waits"} == names
    for number, name in enumerate(sorted(names)):
        rest = {key: value for key, value in whole.properties.items() if key != name}
        store.replace(Entity("7", f"two-{number}", rest))
        other = 7 if isinstance(whole.properties[name], str) else "7"
        store.replace(Entity("7", f"three-{number}", {**rest, name: other}))
    with caplog.at_level(logging.WARNING):
        rows = [row for row in table.rows() if row != ROW]
    assert {(-1, math.inf)} == {(row.counter, row.stated.death) for row in rows}
    assert 2 * len(names) == len(rows) == caplog.text.count("is damaged")


def test_a_row_of_a_newer_release_is_not_damaged_but_says_what_is_needed() -> None:
    account = MemoryAccount()
    store, table = account.table("processors"), ProcessorTable(account.table("processors"))
    table.create()
    store.replace(Entity("UNASSIGNED", "two-1", {"formatVersion": 2, "liveness": 1}))
    message = (
        "Row UNASSIGNED/two-1 of table processors has format version 2; this release reads up to 1, so it needs a newer"
    )
    with pytest.raises(ConfigurationError, match=message):
        table.rows()

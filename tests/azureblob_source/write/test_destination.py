"""Which logs a process keeps between commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from azureblob_source.write import destination
from azureblob_source.write.destination import logs_of
from tests.azureblob_source.write.sink_rows import new_account, plan_of

if TYPE_CHECKING:
    import pytest


def test_a_log_is_kept_for_the_next_commit_until_the_account_has_other_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(destination, "_logs", kept)
    container, schema = new_account().container("container"), pa.schema({"id": pa.int64()})
    first, same, other = (
        logs_of(plan_of(schema, requestTimeoutMs=timeout).of_commit, container) for timeout in (9000, 9000, 8000)
    )
    log = first("flights")
    assert log is same("flights")
    assert log is not other("flights")
    assert log is first("flights"), "one commit has one log of a stream"
    assert ["flights"] == [stream for _, stream in kept], "hourly ones would be kept for ever"

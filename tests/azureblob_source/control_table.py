"""The view `control` as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from azureblob_source.read import views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureblob_source.log.entry import LogEntry


def control_table(entries: Iterable[LogEntry]) -> pa.Table:
    return pa.Table.from_batches(views.control(entries), views.CONTROL)

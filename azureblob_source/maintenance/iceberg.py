"""The Iceberg table of a stream, made by a command, or brought up to date after one that deletes blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from azureblob_source.iceberg.schema import NotInIcebergError
from azureblob_source.log.checkpointing import make_table
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.naming import table_location
from azureblob_source.log.roll_forward import publish_committed
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from azureblob_source.iceberg.metadata import IcebergTable
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Draft
    from azureblob_source.log.publish import Publisher


def make_iceberg_table(log: CommitLog, paths: str, draft: Draft, publisher: Publisher) -> IcebergTable:
    """Make the table of a stream at its head, once that is published. paths: the root of its paths.

    draft, publisher: as of `publish_committed`. `NotFoundError` if there is no log; `ConfigurationError` says why the
    stream cannot be a table.
    """
    log.refresh_boundary()
    head = publish_committed(log, draft, publisher)
    if head is None:
        step = "Check container and stream; `ls` shows what is there."
        raise NotFoundError("make the Iceberg table of", log.place, "there is no commit log", step)
    try:
        made = make_table(log, head, paths)
    except NotInIcebergError as reason:
        step = "Read the stream with this package, or write it to another one without that."
        raise ConfigurationError("make the Iceberg table of", log.place, str(reason), step) from reason
    return cast("IcebergTable", made)  # only a step within a commit may be left to a later one


def refresh_table(log: CommitLog, draft: Draft, publisher: Publisher) -> IcebergTable | None:
    """Bring the table of a stream up to date, if it has one. Errors as of `make_iceberg_table`."""
    _, before = newest_table(log)
    if before is None:
        return None
    return make_iceberg_table(log, before.location.removesuffix(table_location(log.stream)), draft, publisher)

"""The Iceberg table of a stream, made by a command, or brought up to date after one that deletes blobs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from azureblob_source.iceberg.schema import NotInIcebergError
from azureblob_source.log.checkpointing import make_table
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.naming import table_location
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.roll_forward import publish_committed
from foundation.errors import AzureBlobError, ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from azureblob_source.iceberg.metadata import IcebergTable
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Draft

logger = logging.getLogger("azureblob_source")


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
    """Bring the table of a stream up to date, if it has one. Errors as of `make_iceberg_table`.

    draft: in whatever epoch the stream is, as no rows are written.
    """
    _, before = newest_table(log)
    head = None if before is None else log.refresh()
    if before is None or head is None:
        return None
    paths = before.location.removesuffix(table_location(log.stream))
    return make_iceberg_table(log, paths, replace(draft, epoch=head.epoch), publisher)


def try_to_refresh_table(log: CommitLog, draft: Draft) -> None:
    """As `refresh_table`, after the work of a function is done: an error is logged."""
    try:
        refresh_table(log, draft, Publisher(log.container))
    except AzureBlobError as error:
        logger.warning("the Iceberg table of %s is not up to date: %s", log.stream, error)

"""`open_epoch`: a stream is taken over before the first row is written in the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account import connect
from azure_account.location import Location
from azureblob_source.epochs import open_epoch
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.write.options import sink_options
from foundation.errors import ConfigurationError, FencedError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.container import BlobContainer
    from tools.azurite import Azurite

TIME = "2013-01-31T12:00:05+00:00"


@pytest.fixture
def options(azurite: Azurite) -> dict[str, str]:
    return {"connectionString": azurite.connection_string}


def container_of(name: str, options: Mapping[str, str]) -> BlobContainer:
    given = sink_options({**options, "path": f"{name}/flights"}, {})
    return connect(given.account).container(name)


def write(container: BlobContainer, version: int, epoch: int | None) -> None:
    draft = Draft(f"write-{version}-{epoch}", TIME, transaction=Transaction("q", version), epoch=epoch)
    commit_and_publish(CommitLog(container, "flights"), draft, Publisher(container))


def test_writers_of_lower_epochs_and_of_none_are_refused_from_then_on(
    options: dict[str, str], container_name: str
) -> None:
    open_epoch(Location(f"{container_name}/flights", options), 7)
    container = container_of(container_name, options)
    for epoch in (6, None):
        with pytest.raises(FencedError, match="the stream is at epoch 7"):
            write(container, 0, epoch)
    write(container, 0, 7)

    open_epoch(Location(f"{container_name}/flights", options), 7)
    with pytest.raises(FencedError, match="is at epoch 7 .version 1 of its log., this writer has epoch 6"):
        open_epoch(Location(f"{container_name}/flights", options), 6)
    head = CommitLog(container, "flights").refresh()
    assert head is not None
    assert ("append", 7, 1) == (head.operation, head.epoch, head.version)


def test_it_comes_after_what_the_writer_before_has_committed(options: dict[str, str], container_name: str) -> None:
    open_epoch(Location(f"{container_name}/flights", options), 1)
    container = container_of(container_name, options)
    write(container, 0, 1)
    open_epoch(Location(f"{container_name}/flights", options), 2)
    with pytest.raises(FencedError):
        write(container, 1, 1)

    log = CommitLog(container, "flights")
    log.refresh()
    assert ["epoch", "append", "epoch"] == [entry.operation for entry in log.entries(0, 2)]


def test_a_container_that_must_not_be_created(options: dict[str, str], container_name: str) -> None:
    with pytest.raises(NotFoundError, match="createContainer"):
        open_epoch(Location(f"{container_name}/flights", {**options, "createContainer": "false"}), 7)


@pytest.mark.parametrize("path", ["box", "box/"])
def test_epochs_are_of_a_stream(options: dict[str, str], path: str) -> None:
    with pytest.raises(ConfigurationError, match="names no stream"):
        open_epoch(Location(path, options), 7)


def test_an_epoch_is_no_negative_number(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="epoch"):
        open_epoch(Location("box/flights", options), -1)

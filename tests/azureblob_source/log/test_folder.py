"""What is in the folder of a stream beside its data is never taken for data, whatever it is called."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from azure_account.values import BlobProperties
from azureblob_source.log.folder import check_no_files, is_avro, strangers, visible_blobs
from azureblob_source.log.naming import checkpoint_name, is_data, manifest_name, may_be_data
from foundation.errors import ConfigurationError

STREAM = "lake/flights"
DATA = f"{STREAM}/EWR/2013/01/31/12/00-05.avro"
CHECKPOINTS = (checkpoint_name(STREAM, 63), manifest_name(STREAM, 63, "0a1b2c3d4e5f6071"))


def listed(*names: str) -> list[BlobProperties]:
    return [BlobProperties(name, 9, '"1"', datetime(2013, 1, 31, tzinfo=UTC)) for name in names]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_avro_files_of_checkpoints_are_no_data(name: str) -> None:
    assert is_avro(name)
    assert not is_data(name)
    assert not any(may_be_data(name, of) for of in (STREAM, "lake", None))


def test_the_listing_of_a_folder_leaves_checkpoints_out() -> None:
    for folder in (STREAM, "lake"):
        assert [DATA] == [blob.name for blob in visible_blobs(folder, listed(DATA, *CHECKPOINTS))]


def test_checkpoints_are_no_files_of_another_program() -> None:
    assert {STREAM: [DATA]} == strangers(listed(DATA, *CHECKPOINTS), {STREAM})
    assert {"lake": [DATA]} == strangers(listed(DATA, *CHECKPOINTS), {"lake"})


def test_a_log_may_begin_beside_checkpoints_of_a_deleted_one() -> None:
    check_no_files(STREAM, listed(*CHECKPOINTS), "container", own_are_right=False)
    with pytest.raises(ConfigurationError, match="1 Avro files and no commit log"):
        check_no_files(STREAM, listed(DATA, *CHECKPOINTS), "container", own_are_right=False)

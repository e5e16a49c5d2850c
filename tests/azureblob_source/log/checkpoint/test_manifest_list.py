from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given

from azureblob_source.log.checkpoint import manifest_list
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint, ManifestFile, list_bytes, read_list
from azureblob_source.log.live_state import UNUSABLE
from azureblob_source.log.naming import checkpoint_name, manifest_name
from foundation.errors import ConfigurationError, CorruptError
from tests.azureblob_source.log.checkpoint.live_tables import (
    ROOT,
    STREAM,
    checkpoints,
    damaged,
    damages,
    each_damage,
    tables,
    with_header,
)

NAME = checkpoint_name(STREAM, 7)
MANIFEST = ManifestFile(
    manifest_name(STREAM, 7, "0" * 16), 900, 7, 3, 40, 500, 2, 6, None, 99, None, "São Paulo", "2 string"
)
CHECKPOINT = LogCheckpoint(7, "log", "w7", "2026-01-01T00:00:00.000+00:00", 2, (3, 5), (MANIFEST,), {"n": 1})


@given(checkpoints)
def test_a_checkpoint_is_read_as_it_was_put(checkpoint: LogCheckpoint) -> None:
    assert checkpoint == read_list(list_bytes(checkpoint, ROOT), NAME, STREAM)


def test_others_read_icebergs_fields() -> None:
    reader = fastavro.reader(io.BytesIO(list_bytes(CHECKPOINT, ROOT)))
    (found,) = list[Any](reader)
    assert (f"{ROOT}{MANIFEST.name}", 900) == (found["manifest_path"], found["manifest_length"])
    assert (8, 3, 8) == (found["sequence_number"], found["min_sequence_number"], found["added_snapshot_id"])
    assert 2 == found["partition_spec_id"]
    assert (0, 3, 0) == (found["added_files_count"], found["existing_files_count"], found["deleted_files_count"])
    assert (0, 40, 0) == (found["added_rows_count"], found["existing_rows_count"], found["deleted_rows_count"])
    stated = {"format-version": "2", "snapshot-id": "8", "sequence-number": "8"}
    assert stated == {key: value for key, value in reader.metadata.items() if key in stated}


@given(checkpoints, damages)
def test_a_damaged_list_is_unusable(checkpoint: LogCheckpoint, how: tuple[str, int, int]) -> None:
    data = list_bytes(checkpoint, ROOT)
    other = damaged(data, *how)
    assume(data != other)
    with pytest.raises(UNUSABLE):
        read_list(other, NAME, STREAM)


def test_every_bit_of_a_list_counts() -> None:
    data = list_bytes(CHECKPOINT, ROOT)
    for other in each_damage(data):
        with pytest.raises(UNUSABLE):
            read_list(other, NAME, STREAM)


@pytest.mark.parametrize("name", ["other/_iceberg/metadata/m.avro", f"{STREAM}/1.avro", ""])
def test_a_list_with_a_manifest_of_another_stream_is_refused(name: str) -> None:
    data = list_bytes(replace(CHECKPOINT, manifests=(MANIFEST, replace(MANIFEST, name=name))), ROOT)
    with pytest.raises(CorruptError, match=r"it names .*Make it again: .*--rebuild"):
        read_list(data, NAME, STREAM)


def test_a_newer_format_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(manifest_list, "FORMAT_VERSION", 2)
        data = list_bytes(CHECKPOINT, ROOT)
    with pytest.raises(ConfigurationError, match=r"newer release"):
        read_list(data, NAME, STREAM)


def test_a_field_that_is_not_known_is_ignored_and_none_may_be_missing() -> None:
    header = fastavro.reader(io.BytesIO(list_bytes(CHECKPOINT, ROOT))).metadata
    stated = json.loads(header[manifest_list._CHECKPOINT])

    def read(document: object) -> LogCheckpoint:
        data = with_header(list_bytes(CHECKPOINT, ROOT), {manifest_list._CHECKPOINT: json.dumps(document).encode()})
        return read_list(data, NAME, STREAM)

    assert CHECKPOINT == read({**stated, "later": 1})
    for name in stated:
        with pytest.raises(CorruptError, match="is damaged"):
            read({key: value for key, value in stated.items() if key != name})


@pytest.mark.parametrize(
    "stated",
    [
        b"",
        b"[]",
        b"{}",
        b'{"formatVersion": 1}',
        b'{"formatVersion": "1"}',
        json.dumps({"formatVersion": 1, "version": 7, "more": 1}).encode(),
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_forged_list_is_unusable(stated: bytes) -> None:
    data = with_header(list_bytes(CHECKPOINT, ROOT), {manifest_list._CHECKPOINT: stated})
    with pytest.raises(UNUSABLE):
        read_list(data, NAME, STREAM)


@given(tables.filter(lambda table: 0 < table.num_rows))
def test_a_manifest_covers_what_its_blobs_have(table: Any) -> None:
    rows = table.to_pylist()
    found = ManifestFile.of("m", 1, 7, table)
    oldest = (row["version"] if row["first_version"] is None else row["first_version"] for row in rows)
    assert (len(rows), min(oldest), max(row["version"] for row in rows)) == (
        found.blobs,
        found.first,
        found.last,
    )
    partitions = [row["partition"] for row in rows]
    extremes = (None, None) if None in partitions else (min(partitions), max(partitions))
    assert extremes == (found.lowest_partition, found.highest_partition)
    earliest = [row["earliest"] for row in rows]
    assert (None if None in earliest else min(earliest)) == found.earliest
    assert max(row["latest"] for row in rows) == found.latest
    assert {row["partition_field"] for row in rows} == {found.partition_field}
    assert int((found.partition_field or "0").split()[0]) == found.spec_id

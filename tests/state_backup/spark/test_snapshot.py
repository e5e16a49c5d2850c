"""Snapshots of checkpoints that look as Spark writes them."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest

from foundation.errors import ConfigurationError, ConflictError, CorruptError
from state_backup.spark.snapshot import newest_batch, query_id, take_snapshot
from tests.state_backup.spark.checkpoint_files import batch_files, write_files


def paths(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_there_is_no_snapshot_before_the_first_batch(tmp_path: Path) -> None:
    assert newest_batch(tmp_path / "none") is None
    assert take_snapshot(tmp_path / "none", tmp_path / "snapshot") is None
    write_files(tmp_path / "ck", {"metadata": '{"id":"q"}', "offsets/0": "v1\n{}\n{}"})
    assert take_snapshot(tmp_path / "ck", tmp_path / "snapshot") is None
    assert "q" == query_id(tmp_path / "ck")


def test_a_snapshot_has_what_its_batch_and_the_planned_one_need_and_nothing_of_later_ones(tmp_path: Path) -> None:
    committed = {name: text for batch in range(3) for name, text in batch_files(batch).items()}
    planned = {name: text for name, text in batch_files(3).items() if name.startswith(("offsets", "sources"))}
    later = {
        "sources/0/4": "v1\n{}",
        "sources/0/.4.crc": "crc",
        "state/0/0/4.changelog": "of batch 3",
        "state/0/0/.4.changelog.crc": "crc",
        "state/0/0/5_1205f645-bf68.zip": "of batch 4",
        "state/0/0/.6.changelog.0af3.tmp": "is being written",
        "offsets/.5.0af3.tmp": "is being written",
    }
    write_files(tmp_path / "ck", committed | planned | later)
    (tmp_path / "ck" / "empty").mkdir()
    assert 2 == take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    assert set(committed) | set(planned) == paths(tmp_path / "snapshot")
    assert (tmp_path / "snapshot" / "empty").is_dir()


def test_a_batch_that_is_not_planned_yet_is_planned_anew_with_the_same_input(tmp_path: Path) -> None:
    files = {name: text for batch in range(3) for name, text in batch_files(batch).items()}
    write_files(tmp_path / "ck", files | {"sources/0/3": "v1\n{}"})
    assert 2 == take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    assert set(files) == paths(tmp_path / "snapshot")


def test_a_compacted_log_is_kept_unless_it_has_later_entries(tmp_path: Path) -> None:
    files = {name: text for batch in range(3) for name, text in batch_files(batch).items()}
    write_files(tmp_path / "ck", files | {"sources/0/1.compact": "v1\n{}", "sources/0/9.compact": "v1\n{}"})
    (tmp_path / "ck" / "sources/0/0").unlink()
    take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    found = {path for path in paths(tmp_path / "snapshot") if path.startswith("sources")}
    assert {"sources/0/1", "sources/0/1.compact", "sources/0/2"} == found


def test_a_log_that_was_compacted_beyond_the_snapshot_is_refused(tmp_path: Path) -> None:
    files = {name: text for batch in range(3) for name, text in batch_files(batch).items()}
    write_files(tmp_path / "ck", files | {"sources/0/9.compact": "v1\n{}"})
    (tmp_path / "ck" / "sources/0/0").unlink()
    with pytest.raises(ConflictError, match="entry 0 of the log of source 0 was compacted and deleted meanwhile"):
        take_snapshot(tmp_path / "ck", tmp_path / "snapshot")


def test_old_files_are_linked_and_young_ones_copied_since_they_may_grow(tmp_path: Path) -> None:
    write_files(tmp_path / "ck", batch_files(0))
    old, young = tmp_path / "ck" / "state/0/0/1.changelog", tmp_path / "ck" / "state/0/0/SSTs/8.sst"
    write_files(tmp_path / "ck", {"state/0/0/SSTs/8.sst": "begun"})
    os.utime(old, (time.time() - 60, time.time() - 60))
    take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    with young.open("a") as file:
        file.write(" and gone on")
    assert "begun" == (tmp_path / "snapshot/state/0/0/SSTs/8.sst").read_text()
    assert (tmp_path / "snapshot/state/0/0/1.changelog").samefile(old)


def test_a_second_snapshot_takes_the_place_of_the_first(tmp_path: Path) -> None:
    write_files(tmp_path / "ck", batch_files(0))
    take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    write_files(tmp_path / "snapshot", {"left/over": "x"})
    write_files(tmp_path / "ck", batch_files(1))
    assert 1 == take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    assert set(batch_files(0)) | set(batch_files(1)) == paths(tmp_path / "snapshot")


def test_a_snapshot_that_spark_has_overtaken_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "ck", batch_files(0))
    looked = iter([0, 5])
    monkeypatch.setattr("state_backup.spark.snapshot.newest_batch", lambda _: next(looked))
    with pytest.raises(
        ConflictError, match=r"5 batches were committed meanwhile, and Spark keeps 3.*minBatchesToRetain"
    ):
        take_snapshot(tmp_path / "ck", tmp_path / "snapshot", retained=3)


def test_damage_is_named(tmp_path: Path) -> None:
    write_files(tmp_path / "ck", {"metadata": "no json", "commits/0": "v1\n{}", "offsets/x": ""})
    with pytest.raises(CorruptError, match="metadata"):
        query_id(tmp_path / "ck")
    with pytest.raises(CorruptError, match="offsets/0 failed: it is gone"):
        take_snapshot(tmp_path / "ck", tmp_path / "snapshot")
    write_files(tmp_path / "ck", {"offsets/0": "v1\n{}\n" + json.dumps({"other": 1}) + "\n-"})
    assert 0 == take_snapshot(tmp_path / "ck", tmp_path / "snapshot")


@pytest.mark.parametrize(
    ("call", "number", "step"),
    [("link", errno.EXDEV, "below a mount point and not itself one"), ("mkdir", errno.ENOSPC, "Make room")],
)
def test_what_the_disk_refuses_is_an_error_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, step: str
) -> None:
    write_files(tmp_path / "ck", batch_files(0))
    for path in paths(tmp_path / "ck"):
        os.utime(tmp_path / "ck" / path, (1, 1))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ConfigurationError, match=step):
        take_snapshot(tmp_path / "ck", tmp_path / "snapshot")

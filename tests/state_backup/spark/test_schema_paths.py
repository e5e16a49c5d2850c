"""The schemas of a state are found where the checkpoint was restored to, whatever the directory of the query was."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from foundation.errors import CorruptError
from state_backup.spark import restore_checkpoint
from state_backup.spark.batches import back_up_batch
from state_backup.spark.schema_paths import relocate
from tests.state_backup.spark.checkpoint_files import batch_files, write_files
from tests.state_backup.states import new_account, state_in

if TYPE_CHECKING:
    from pathlib import Path

METADATA = "state/0/_metadata/v2/0"


def schemas(root: Path, *places: Path) -> dict[str, str]:
    """The files of an operator that ran in these directories, one after the other."""
    names = [f"{batch}_5b7513a0" for batch in range(len(places))]
    paths = [f"file:{place}/state/0/_stateSchema/default/{name}" for place, name in zip(places, names, strict=True)]
    properties = json.dumps({"stateVariables": [{"stateName": "flüge"}]}, ensure_ascii=False)
    store = {"storeName": "default", "numPartitions": 1, "stateSchemaFilePaths": paths}
    document = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [store], "operatorPropertiesJson": properties}
    text = "v2\n" + json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    files = {METADATA: text, "state/0/_metadata/v2/.0.crc": "crc"}
    return {**files, **{f"state/0/_stateSchema/default/{name}": "schema" for name in names}}


def paths_in(root: Path) -> list[str]:
    document = json.loads((root / METADATA).read_text("utf-8").partition("\n")[2])
    paths: list[str] = document["stateStoreInfo"][0]["stateSchemaFilePaths"]
    return paths


def test_paths_of_other_directories_become_those_of_this_one_and_all_else_stays(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "_stateSchema" / "there"
    write_files(here, schemas(here, there, tmp_path / "elsewhere"))
    os.link(here / METADATA, tmp_path / "second name")
    before = (here / METADATA).read_text("utf-8")
    relocate(here)
    assert [path.removeprefix("file:") for path in paths_in(here)] == [
        str(here / f"state/0/_stateSchema/default/{batch}_5b7513a0") for batch in range(2)
    ]
    assert (here / METADATA).read_text("utf-8") == before.replace(str(there), str(here)).replace(
        str(tmp_path / "elsewhere"), str(here)
    )
    assert not (here / "state/0/_metadata/v2/.0.crc").exists(), "it would be the checksum of other bytes"
    assert before == (tmp_path / "second name").read_text("utf-8")

    again = (here / METADATA).stat()
    relocate(here)
    assert again.st_ino == (here / METADATA).stat().st_ino, "nothing is written again"


def test_a_checkpoint_that_is_where_it_was_is_not_touched(tmp_path: Path) -> None:
    write_files(tmp_path, schemas(tmp_path, tmp_path))
    relocate(tmp_path)
    assert (tmp_path / "state/0/_metadata/v2/.0.crc").exists()
    relocate(tmp_path / "absent")


def test_metadata_that_cannot_be_read_are_said_so(tmp_path: Path) -> None:
    write_files(tmp_path, {**schemas(tmp_path, tmp_path), METADATA: "v2\n{"})
    with pytest.raises(CorruptError, match="read .*_metadata/v2/0 failed"):
        relocate(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
def test_a_restored_checkpoint_finds_its_schemas_in_another_directory(
    tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = new_account().container("box")
    first, second = tmp_path / "disk-1" / "ck", tmp_path / "disk-2" / "ck"
    write_files(first, {**batch_files(0), **schemas(first, first)})
    write_files(first, {name: text for name, text in batch_files(1).items() if not name.startswith("commits")})
    back_up_batch(state_in(container), first, 1)
    if killed:  # after the restore, before it was relocated
        with monkeypatch.context() as patched:
            patched.setattr("state_backup.spark.checkpoints.relocate", lambda _: None)
            restore_checkpoint(state_in(container), second)
        assert str(first) in paths_in(second)[0]
    restore_checkpoint(state_in(container), second)
    assert [f"file:{second}/state/0/_stateSchema/default/0_5b7513a0"] == paths_in(second)

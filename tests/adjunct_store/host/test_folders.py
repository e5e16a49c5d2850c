"""Where the cache of a host is, and who may use it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from adjunct_store.host.folders import store_folder
from azure_account.memory.account import MemoryAccount
from foundation.errors import ConfigurationError

BOX = MemoryAccount().container("box")


def test_by_default_it_is_a_folder_of_the_user_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = store_folder(BOX, "stores/planes", None).path
    assert tmp_path / f"adjunct-store-{os.geteuid()}" == folder.parent
    assert [0o700, 0o700] == [path.stat().st_mode & 0o777 for path in (folder.parent, folder)]
    assert folder == store_folder(BOX, "stores/planes", None).path


def test_each_store_container_and_account_has_its_own_folder(tmp_path: Path) -> None:
    other = MemoryAccount().container("other")
    folders = {store_folder(box, store, tmp_path / "c").path for box in (BOX, other) for store in ("a", "b")}
    assert 4 == len(folders)


def test_a_default_folder_that_is_a_symbolic_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"adjunct-store-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="it is a symbolic link"):
        store_folder(BOX, "stores/planes", None)
    assert [] == list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"adjunct-store-{os.geteuid()}"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(ConfigurationError, match="belongs to user 12345, and this process runs as user 0"):
        store_folder(BOX, "stores/planes", None)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigurationError, match=r"other users can write to it \(its mode is 1777\)"):
        store_folder(BOX, "stores/planes", tmp_path)


def test_a_given_folder_is_made_with_its_parents_and_may_be_reached_by_a_link(tmp_path: Path) -> None:
    made = store_folder(BOX, "stores/planes", tmp_path / "a" / "b").path
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    assert made == store_folder(BOX, "stores/planes", tmp_path / "link").path


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"make cache directory .*file failed: .*Give another"):
        store_folder(BOX, "stores/planes", tmp_path / "file")

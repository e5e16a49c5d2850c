"""Other programs read the blobs of the sink: those that are on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.ours import write_all
from tests.clients.readers import Reader, readers
from tests.clients.reading import UNREAD, unread
from tests.clients.table import table

PAGE = Path(__file__).parents[2] / "docs" / "COMPATIBILITY.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    write_all(folder)
    return folder


@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.name)
def test_a_program_reads_the_blobs_of_the_sink(reader: Reader, folder: Path) -> None:
    if missing := reader.missing():
        pytest.skip(missing)
    lost = unread(reader, folder)
    assert UNREAD[reader.name] == lost.keys(), lost


def test_the_page_has_the_table_that_these_tests_prove() -> None:
    assert table(UNREAD) in PAGE.read_text()

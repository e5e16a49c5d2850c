"""What the tests of the host's cache set."""

from __future__ import annotations

import pytest

from state_backup.index import packs


@pytest.fixture(autouse=True)
def _each_table_has_a_blob(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of these stores are small. They are stored as large ones are: each in a blob of its own."""
    monkeypatch.setattr(packs, "SMALL_FILE", 0)

"""What several tests of `state_backup` set."""

from __future__ import annotations

import pytest

from state_backup.index import packs


@pytest.fixture
def no_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file has a blob of its own, however small it is."""
    monkeypatch.setattr(packs, "SMALL_FILE", 0)

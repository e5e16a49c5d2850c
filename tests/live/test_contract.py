"""The contract of blobs and tables, on the account."""

from __future__ import annotations

import pytest

from tests.azure_account import contract
from tests.live.account import Tried
from tests.live.rows import row

BLOBS = "blobs: blocks, conditions, index tags, tiers, copies, listings, leases"


@pytest.fixture(autouse=True)
def _may_skip(request: pytest.FixtureRequest, tried: Tried) -> None:
    name = request.node.originalname
    if tried.hierarchical and "tag" in name:
        pytest.skip("an account with hierarchical namespace has no index tags")


@row(BLOBS)
class TestContainer(contract.TestContainer): ...


@row(BLOBS)
class TestBlocks(contract.TestBlocks): ...


@row(BLOBS)
class TestBlobs(contract.TestBlobs): ...


@row(BLOBS)
class TestCopies(contract.TestCopies): ...


@row(BLOBS)
class TestListing(contract.TestListing): ...


@row(BLOBS)
class TestLeases(contract.TestLeases): ...


@row("tables")
class TestTables(contract.TestTables): ...


@row("soft delete and undelete")
class TestUndelete(contract.TestUndelete):
    @pytest.fixture(autouse=True)
    def _needs_soft_delete(self, tried: Tried) -> None:
        if not tried.soft_delete or tried.versioning or tried.hierarchical:
            pytest.skip("the account has no soft delete for blobs, or versioning or a hierarchical namespace besides")

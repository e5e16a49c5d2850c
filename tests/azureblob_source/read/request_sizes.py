"""Requests of other sizes than the real ones, so that small blobs take many."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from azureblob_source.read import blob_bytes, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def request_sizes(request: int, first: int, least_charge: int = read_ahead._LEAST_CHARGE) -> Iterator[None]:
    """Bytes of a request, of the first one to a blob, and the least that a request counts for in the budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "REQUEST_BYTES", request)
        patch.setattr(read_ahead, "FIRST_REQUEST", first)
        patch.setattr(blob_bytes, "FIRST_REQUEST", first)
        patch.setattr(read_ahead, "_LEAST_CHARGE", least_charge)
        yield

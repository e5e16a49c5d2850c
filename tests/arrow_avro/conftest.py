"""A fixture for tests of decoding: they run with both decoders."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from arrow_avro.decoding.scanners import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING = pytest.mark.skipif(
    find_spec("pyspark_azureblob_native") is None, reason="the compiled decoder is not installed"
)


@pytest.fixture(scope="module", params=["pure", pytest.param("native", marks=MISSING)])
def each_decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """The decoder in Python, then the compiled one, also for the processes that a test starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, request.param)
        yield request.param

"""The error message that a user of Spark reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Callable


def error_of(act: Callable[[], object]) -> str:
    """Class and message of the error that `act` raises: the last line of ours in Spark's traceback."""
    with pytest.raises(PySparkException) as failure:
        act()
    ours = re.findall(r"^foundation\.errors\.(\w+: .*)$", str(failure.value), re.MULTILINE)
    assert ours, f"no error of ours in {failure.value}"
    return str(ours[-1])

"""Errors of this project that a task has raised: as their own class on the driver, not as Spark's."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from azure_account import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = re.compile(r"^azure_account\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise an error that a Python worker has raised, and that Spark reports with its traceback, as what it was."""
    try:
        yield
    except PySparkException as failure:
        error = own_error(failure)
        if error is None:
            raise
        raise error from failure


def own_error(failure: Exception) -> errors.AzureBlobError | None:
    """The last error of this project in the tracebacks of a failure of Spark; None if there is none."""
    found = _OURS.findall(str(failure))
    if not found:
        return None
    kind, message = found[-1]
    known = getattr(errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, errors.AzureBlobError)):
        return None
    return known(message)

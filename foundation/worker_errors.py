"""Errors of this project that a Python worker of Spark has raised: as their own class on the driver, not as Spark's."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foundation import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = re.compile(r"^foundation\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise an error that a Python worker has raised, and that Spark reports with its traceback, as what it was."""
    try:
        yield
    except Exception as failure:
        error = own_error(failure)
        if error is None or error is failure:
            raise
        raise error from failure


def own_error(failure: BaseException) -> errors.AzureBlobError | None:
    """The failure if it is one of this project, or the last one in the tracebacks of Spark's; None if there is none."""
    if isinstance(failure, errors.AzureBlobError):
        return failure
    found = _OURS.findall(str(failure))
    if not found:
        return None
    kind, message = found[-1]
    known = getattr(errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, errors.AzureBlobError)):
        return None
    return known(message)

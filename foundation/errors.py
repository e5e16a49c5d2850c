"""The error tree: seven kinds, by what the caller does next.

    AzureBlobError
    ├── ConfigurationError   an option, a name, a schema or a permission: change it, a retry cannot help
    ├── NotFoundError        the named object does not exist
    ├── ConflictError        another writer was first: read the object again before you write it
    ├── FencedError          a newer epoch has taken over: stop writing
    ├── TransientError       the service or the network failed for longer than the deadline: try later
    ├── CorruptError         the bytes are not what they must be: repair or skip the object
    └── RowCountError        a step has lost or doubled rows: a fault of this package, report it

Every error has a complete message (see `describe`) as its only argument, so it can be pickled from a Python worker to
the driver, where Spark shows the message.
"""

from __future__ import annotations


class AzureBlobError(Exception):
    """Root of all errors that this project raises."""


class ConfigurationError(AzureBlobError, ValueError):
    """The request cannot succeed. Change the option, name, schema or permission that the message names."""


class NotFoundError(AzureBlobError):
    """The container, stream, blob or version does not exist."""


class ConflictError(AzureBlobError):
    """Another writer changed the object first. Read it again before you write it."""


class FencedError(AzureBlobError):
    """A writer with a higher epoch has taken over. Stop this writer; nothing more of it was published."""


class TransientError(AzureBlobError):
    """Retries are exhausted. Nothing is known to be wrong with the request: run the operation again later."""


class CorruptError(AzureBlobError):
    """Stored bytes are damaged. The message names blob and offset.

    A blob that is intact but not supported, or does not fit the schema that it is read as, is a `ConfigurationError`.
    """


class RowCountError(AzureBlobError):
    """A step has made more or fewer rows than it was given. Nothing of the task is committed."""


def describe(
    operation: str,
    target: str,
    cause: str,
    next_step: str,
    *,
    elapsed: float | None = None,
    attempts: int | None = None,
) -> str:
    """The message of an error: operation, object, attempts, cause, next step. `elapsed` is in seconds."""
    effort = []
    if attempts is not None and attempts > 1:
        effort.append(f"{attempts} attempts")
    if elapsed is not None:
        effort.append(f"{elapsed:.1f} s")
    spent = f" after {', '.join(effort)}" if effort else ""
    return f"{operation} {target} failed{spent}: {cause.rstrip('.')}. {next_step}"

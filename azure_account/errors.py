"""The error tree: six kinds, told apart by what the caller does next.

    AzureBlobError
    ├── ConfigurationError   an option, a name, a schema or a permission: change it, a retry cannot help
    ├── NotFoundError        the named object does not exist
    ├── ConflictError        another writer was first: read the state again, then decide
    ├── FencedError          a newer epoch has taken over: stop writing
    ├── TransientError       the service or the network failed for longer than the deadline: try later
    └── CorruptError         the bytes are not what they must be: repair or skip the object

Every error is raised with one finished sentence (see `describe`) and holds nothing else, so it survives pickling
from a Python worker to the driver, where Spark shows its text.
"""

from __future__ import annotations


class AzureBlobError(Exception):
    """Root of every error that this project raises on purpose."""


class ConfigurationError(AzureBlobError, ValueError):
    """The request cannot succeed as it stands. Change the option, name, schema or permission that is named."""


class NotFoundError(AzureBlobError):
    """The container, stream, blob or version does not exist."""


class ConflictError(AzureBlobError):
    """Another writer changed the object first. Read it again and decide anew."""


class FencedError(AzureBlobError):
    """A writer with a higher epoch has taken over. End this writer; nothing more of it was published."""


class TransientError(AzureBlobError):
    """Retries were used up. Nothing is known to be wrong with the request: repeat it later."""


class CorruptError(AzureBlobError):
    """Stored bytes break their format. The message names blob and offset.

    Only that: what is whole but not supported, or does not fit the schema it is read as, is a `ConfigurationError`.
    """


def describe(
    operation: str,
    target: str,
    cause: str,
    next_step: str,
    *,
    elapsed: float | None = None,
    attempts: int | None = None,
) -> str:
    """One sentence for an error: operation, object, effort, cause, next step. `elapsed` is in seconds."""
    effort = []
    if attempts is not None and attempts > 1:
        effort.append(f"{attempts} attempts")
    if elapsed is not None:
        effort.append(f"{elapsed:.1f} s")
    spent = f" after {', '.join(effort)}" if effort else ""
    return f"{operation} {target} failed{spent}: {cause.rstrip('.')}. {next_step}"

"""The error tree: seven kinds, by what the caller does next. Pure.

    AzureBlobError
    ├── ConfigurationError   an option, a name, a schema or a permission: change it, a retry cannot help
    ├── NotFoundError        the named object does not exist
    ├── ConflictError        another writer was first: read the object again before you write it
    ├── FencedError          a newer epoch has taken over: stop writing
    ├── TransientError       the service or the network failed for longer than the deadline: try later
    ├── CorruptError         the bytes are not what they must be: repair or skip the object
    └── RowCountError        a step has lost or doubled rows: a fault of this package, report it

An error keeps its parts, so that another error can take some of them over. Its message is made of them: *operation
target failed after 3 attempts, 2.0 s: cause. Next step.* It can be pickled from a Python worker to the driver, where
Spark shows the message.
"""

from __future__ import annotations

from typing import overload


class AzureBlobError(Exception):
    """Root of all errors that this project raises. Given one text, that is the whole message, and the `cause`."""

    operation: str
    target: str
    cause: str
    next_step: str

    @overload
    def __init__(self, message: str, /) -> None: ...

    @overload
    def __init__(
        self,
        operation: str,
        target: str,
        cause: str,
        next_step: str,
        /,
        *,
        elapsed: float | None = None,
        attempts: int = 1,
    ) -> None: ...

    def __init__(self, *parts: str, elapsed: float | None = None, attempts: int = 1) -> None:
        """elapsed: seconds from the first attempt to the last."""
        super().__init__(*parts)
        self.operation, self.target, self.cause, self.next_step = parts if len(parts) > 1 else ("", "", *parts, "")
        self.elapsed: float | None = elapsed
        self.attempts: int = attempts

    @property
    def failure(self) -> str:
        """The message without the next step, for an error that knows a better one."""
        if not self.operation:
            return self.cause
        effort = [f"{self.attempts} attempts"] if self.attempts > 1 else []
        if self.elapsed is not None:
            effort.append(f"{self.elapsed:.1f} s")
        spent = f" after {', '.join(effort)}" if effort else ""
        return f"{self.operation} {self.target} failed{spent}: {self.cause.rstrip('.')}."

    def __str__(self) -> str:
        return f"{self.failure} {self.next_step}".rstrip()


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

"""The names in the account that belong to a job. Pure.

A job's name is any text. Tables allow letters and digits only, so a table's name is what is left of the job's name, and
a digest of container and job: `a-b1` and `ab1` are two jobs, and so is `a-b1` in another container.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from azure_account.names import check_blob, check_keys, is_key
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_CHARACTERS = 200
"""Of a job's name: quoted, it is a segment of a blob's name."""
_KEPT = 40
JOBS, LEADERS = "coordination/", "leaders/"
"""The folders of the blobs of jobs, and of programs that run under leadership."""
_JOB_BLOB = re.compile(f"{JOBS}([^/]+)/job\\.json")


@dataclass(frozen=True)
class JobNames:
    """blob: it is leased, and has epoch, job model and barrier. processors: a table."""

    blob: str
    processors: str


def names_of(container: str, job: str) -> JobNames:
    """The names of a job whose blob is in this container. `ConfigurationError` for an empty or too long name.

    A table belongs to the account, so the digest in its name is of the container's name too.
    """
    digest = hashlib.sha256(container.encode() + b"/" + _encoded("job", job)).hexdigest()[:10]
    table = re.sub("[^A-Za-z0-9]", "", job)[:_KEPT] + digest
    blob = f"{JOBS}{_segment(job)}/job.json"
    check_blob(blob)
    return JobNames(blob, f"processors{table}")


def job_of(blob: str) -> str | None:
    """The job of a blob; None if it is no job's."""
    found = _JOB_BLOB.fullmatch(blob)
    return None if found is None else unquote(found[1])


def leader_blob(program: str) -> str:
    """The leased blob of a program that runs under leadership. Every name has a blob of its own.

    `ConfigurationError` for an empty or too long name.
    """
    _encoded("program", program)
    blob = LEADERS + _segment(program)
    check_blob(blob)
    return blob


def _encoded(kind: str, name: str) -> bytes:
    """The name in UTF-8. `ConfigurationError` if it cannot be a name."""
    if not 1 <= len(name) <= MOST_CHARACTERS or not name.strip():
        text = (
            f"The {kind}'s name {name[:80]!r} has {len(name)} characters: give 1 to {MOST_CHARACTERS}, not only spaces."
        )
        raise ConfigurationError(text)
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        text = f"The {kind}'s name {name[:80]!r} cannot be encoded as UTF-8."
        raise ConfigurationError(text) from error


def _segment(name: str) -> str:
    """The name as a segment of a blob's name. Azure may drop a dot at the end, and `.` and `..` are no segments."""
    quoted = quote(name, safe="")
    return f"{quoted[:-1]}%2E" if quoted.endswith(".") else quoted


def check_processor(name: str) -> None:
    """`ConfigurationError` unless the name can be a part of a row key."""
    if not 1 <= len(name) <= MOST_CHARACTERS:
        text = f"The processor's name {name[:80]!r} has {len(name)} characters: give 1 to {MOST_CHARACTERS}."
        raise ConfigurationError(text)
    check_keys(name)


def check_tasks(tasks: Iterable[object]) -> tuple[str, ...]:
    """The names of tasks, each once, in their order. `ConfigurationError` for anything but a list of names."""
    if isinstance(tasks, str) or not hasattr(tasks, "__iter__"):
        text = f"The tasks of a job are a list of names, not {repr(tasks)[:80]}. Give a list, which may be empty."
        raise ConfigurationError(text)
    names: dict[str, None] = {}
    for name in tasks:
        if not isinstance(name, str) or not name or not _encodes(name):
            text = f"The name of a task is text that is not empty and can be encoded as UTF-8, not {repr(name)[:80]}."
            raise ConfigurationError(text)
        names[name] = None
    return tuple(names)


def checkpoint_key(task: str) -> str:
    """The row key of a task's checkpoint: its name, or what is left of it and a digest if the name cannot be a key.

    `ConfigurationError` for what cannot be a task.
    """
    [name] = check_tasks([task])
    if is_key(name):
        return name
    return re.sub("[^A-Za-z0-9]", "-", name)[:_KEPT] + "-" + hashlib.sha256(name.encode()).hexdigest()


def tasks_digest(tasks: Iterable[str]) -> str:
    """A short digest of a list of tasks, in whatever order: processors compare theirs."""
    text = "".join(f"{len(name)}:{name}" for name in sorted(tasks))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

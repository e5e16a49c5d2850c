"""Where a write goes: its container, and the logs that this process keeps between commits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from azure_account import connect
from azure_account.preparation import create_if_absent
from azureblob_source.log.commit_log import CommitLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.options.settings import AccountSettings
    from azureblob_source.write.commit_plan import CommitPlan

_logs: dict[tuple[str, str], tuple[AccountSettings, CommitLog]] = {}
"""By the container's URL and the stream. Other settings, such as a renewed SAS, replace a log: they come each hour."""


def container_of(plan: CommitPlan) -> BlobContainer:
    """The container of a write. Makes no request; connections are kept as long as the process."""
    return connect(plan.account).container(plan.address.container)


def logs_of(plan: CommitPlan, container: BlobContainer) -> Callable[[str], CommitLog]:
    """The logs that this process keeps: they remember their heads, so that a commit need not search for them."""

    @cache
    def log(stream: str) -> CommitLog:
        settings, known = _logs.get((container.url, stream), (None, None))
        if known is None or settings != plan.account:
            known = CommitLog(container, stream, facts=plan.facts if stream == plan.stream else None)
            _logs[container.url, stream] = plan.account, known
        return known

    return log


def ensure_container(container: BlobContainer, *, create: bool) -> None:
    """Create the container if it is absent; with `create` false raise `NotFoundError` instead."""
    if create_if_absent(container, allowed=create):
        for known in [key for key in _logs if key[0] == container.url]:
            del _logs[known]  # these logs were of a container of the same name that has been deleted

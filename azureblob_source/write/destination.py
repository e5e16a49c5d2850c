"""Where a write goes: its container, and the logs that this process keeps between commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account import connect
from azure_account.preparation import create_if_absent
from azureblob_source.log.commit_log import CommitLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.options.settings import AccountSettings
    from azureblob_source.write.commit_plan import CommitPlan

_logs: dict[tuple[AccountSettings, str, str], CommitLog] = {}


def container_of(plan: CommitPlan) -> BlobContainer:
    """The container of a write. Makes no request; connections are kept as long as the process."""
    return connect(plan.account).container(plan.address.container)


def logs_of(plan: CommitPlan, container: BlobContainer) -> Callable[[str], CommitLog]:
    """The logs that this process keeps: they remember their heads, so that a commit need not search for them."""

    def log(stream: str) -> CommitLog:
        facts = plan.facts if stream == plan.stream else None
        return _logs.setdefault((plan.account, container.name, stream), CommitLog(container, stream, facts=facts))

    return log


def ensure_container(container: BlobContainer, *, create: bool) -> None:
    """Create the container if it is absent; with `create` false raise `NotFoundError` instead."""
    if create_if_absent(container, allowed=create):
        for known in [key for key in _logs if key[1] == container.name]:
            del _logs[known]  # these logs were of a container of the same name that has been deleted

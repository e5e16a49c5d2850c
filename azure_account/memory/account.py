"""`StorageAccount` in memory: `MemoryService` with the same retries as Azure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.account import StorageAccount
from azure_account.memory.service import MemoryService
from azure_account.retrying.policy import RetryPolicy
from azure_account.retrying.retry_loop import Intercept, RetryLoop

if TYPE_CHECKING:
    from foundation.clock import Clock


class MemoryAccount(StorageAccount):
    """A `StorageAccount` in memory, whose state is `service`.

    Another account with the same service acts as another process (see `restarted`). Unless another clock is given, only
    delays between attempts and the test move the time.
    """

    def __init__(
        self,
        service: MemoryService | None = None,
        *,
        clock: Clock | None = None,
        intercept: Intercept | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.service: MemoryService = service or MemoryService(clock=clock)
        self._policy = policy or RetryPolicy()
        retry_loop = RetryLoop(self._policy, self.service.clock, lambda: 0.5, intercept or Intercept())
        super().__init__(self.service, lambda: self.service.tables, retry_loop)

    @property
    def clock(self) -> Clock:
        """The service's clock."""
        return self.service.clock

    def restarted(self, intercept: Intercept | None = None) -> MemoryAccount:
        """An account of a new process: the same state, with `intercept` or without faults."""
        return MemoryAccount(self.service, intercept=intercept, policy=self._policy)

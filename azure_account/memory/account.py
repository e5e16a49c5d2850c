"""The in-memory account: `MemoryService` with the retries that Azure gets too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.memory.service import MemoryService
from azure_account.retrying.account import RetryingAccount
from azure_account.retrying.policy import RetryPolicy
from azure_account.retrying.retry_loop import Intercept, RetryLoop

if TYPE_CHECKING:
    from azure_account.clock import Clock


class MemoryAccount(RetryingAccount):
    """A `StorageAccount` in memory.

    `service` is the state; a second account over it is another process at the same storage (see `restarted`). Time
    stands still unless a clock that runs is given, and waiting between tries only moves the clock.
    """

    def __init__(
        self,
        service: MemoryService | None = None,
        *,
        clock: Clock | None = None,
        intercept: Intercept | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.service = service or MemoryService(clock=clock)
        self._policy = policy or RetryPolicy()
        retry_loop = RetryLoop(self._policy, self.service.clock, lambda: 0.5, intercept or Intercept())
        super().__init__(self.service, lambda: self.service.tables, retry_loop)

    @property
    def clock(self) -> Clock:
        """The service's clock."""
        return self.service.clock

    def restarted(self, intercept: Intercept | None = None) -> MemoryAccount:
        """The account as a new process finds it: the same state, and other faults or none."""
        return MemoryAccount(self.service, intercept=intercept, policy=self._policy)

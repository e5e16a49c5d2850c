"""Real processes on an emulator share tasks; the leader is killed, another is suspended past its lease and resumed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import ContainerClient

from coordination import CoordinatorTiming, LeaseTiming
from demo.processor import arguments, task_names
from tools.reporting import Reporting, begun_twice, failures, is_shared, wait_for

if TYPE_CHECKING:
    from tools.azurite import Azurite

LEASE = LeaseTiming(duration=15, renew_every=3, poll_every=2, request=2, margin=3)
TIMING = CoordinatorTiming(heartbeat=1, death=10, margin=2, request=2, barrier=10)
TASKS = task_names(12)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_share_tasks_whoever_is_killed_or_suspended(azurite: Azurite, container_name: str) -> None:
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        client.create_container()
    slack = 20.0  # machines are slow
    with ExitStack() as stack:

        def start(name: str) -> Reporting:
            given = arguments(container_name, name, tasks=len(TASKS), timing=TIMING, lease=LEASE)
            process = Reporting(azurite.connection_string, name, "demo.processor", *given)
            stack.callback(process.kill)
            return process

        everybody = [start(f"p{number}") for number in range(4)]
        wait_for(lambda: is_shared(TASKS, everybody), 60)

        (leader,) = (process for process in everybody if process.leads)
        leader.kill()
        left = [process for process in everybody if process is not leader]
        elected = wait_for(lambda: any(process.leads for process in left), LEASE.takeover + slack)
        taken = elected + wait_for(lambda: is_shared(TASKS, left), 2 * TIMING.barrier + slack)
        bound = f"bound {LEASE.takeover:.0f} s"
        print(f"killed leader: the next one after {elected:.1f} s ({bound}), its tasks after {taken:.1f} s")  # noqa: T201

        suspended = next(process for process in left if process.leads)
        suspended.suspend()
        others = [process for process in left if process is not suspended]
        wait_for(lambda: any(process.leads for process in others), LEASE.takeover + slack)
        wait_for(lambda: is_shared(TASKS, others), TIMING.death + 2 * TIMING.barrier + slack)
        suspended.resume()
        joined = start("late")
        wait_for(lambda: is_shared(TASKS, [*others, suspended, joined]), TIMING.death + 3 * TIMING.barrier + slack)
        assert 1 == sum(process.leads for process in [*others, suspended, joined])

        joined.end()
        wait_for(lambda: is_shared(TASKS, [*others, suspended]), 3 * TIMING.heartbeat + slack)
        assert joined.named("stopped")

    assert set() == begun_twice([*everybody, joined])
    assert [] == failures([*everybody, joined])

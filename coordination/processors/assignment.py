"""Which processor runs which task: balanced, sticky, deterministic. Pure.

The tasks stay where they are, but for those of processors that are gone and those that one processor has above its
share. So a processor that joins takes a share from the others, and one that leaves gives its share to the others;
nothing else moves. If there are more processors than tasks, some have none and are ready to take over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def assign(tasks: Iterable[str], processors: Iterable[str], previous: Mapping[str, str]) -> dict[str, str]:
    """The processor of each task, by task name; empty without processors. `previous` is what was assigned before.

    The numbers of tasks of two processors differ by one at the most.
    """
    members, wanted = sorted(set(processors)), sorted(set(tasks))
    if not members:
        return {}
    kept: dict[str, list[str]] = {member: [] for member in members}
    free: list[str] = []
    for task in wanted:
        kept.get(previous.get(task, ""), free).append(task)
    least, larger = divmod(len(wanted), len(members))
    # Those that have the most keep the larger shares, so that no task moves without need.
    by_load = sorted(members, key=lambda member: (-len(kept[member]), member))
    share = {member: least + (place < larger) for place, member in enumerate(by_load)}
    for member in members:
        free += kept[member][share[member] :]
        del kept[member][share[member] :]
    free.sort()
    for member in members:
        while len(kept[member]) < share[member]:
            kept[member].append(free.pop(0))
    return {task: member for member in members for task in kept[member]}

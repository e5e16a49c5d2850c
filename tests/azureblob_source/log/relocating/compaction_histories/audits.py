"""Audits beside compactions: an audit finds nothing that is not there, whatever others do meanwhile."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.audit.findings import Kind
from foundation.errors import NotFoundError, TransientError
from tests.histories.world import BOX

if TYPE_CHECKING:
    from collections.abc import Callable

    from azureblob_source.maintenance.audit.findings import Finding
    from tests.azureblob_source.log.relocating.compaction_histories.world import CompactionProcess, CompactionWorld

AGES = (timedelta(days=3650), timedelta(hours=1), timedelta(0))


def audits(
    stream: str, age: timedelta, *, history: bool, is_sound: bool = False
) -> Callable[[CompactionProcess], None]:
    """`azureblob audit`. is_sound: nothing at all is to be found."""

    def act(process: CompactionProcess) -> None:
        world, before = process.world, set(process.world.truth.visible)
        try:
            found = audit(CommitLog(process.container, stream), age, history=history)
        except NotFoundError as error:
            if "commit log" not in str(error):
                raise
            return
        except TransientError:
            return
        world.seen["audit"] += 1
        world.seen["audit finds it sound"] += found.sound
        for each in found.findings:
            world.seen[f"audit finds: {each.kind}"] += 1
            if is_sound or not _is_true(world, stream, each, before, age):
                world.truth.fail(f"an audit of {stream} finds what is not there: {each}")
        if found.renewed:
            world.truth.fail(f"an audit of {stream} finds changed metadata of {found.renewed} blobs")

    return act


def _is_true(world: CompactionWorld, stream: str, found: Finding, before: set[str], age: timedelta) -> bool:
    """Whether a finding is right. before: the blobs that were visible when the audit began."""
    truth, name = world.truth, found.name
    match found.kind:
        case Kind.MISSING:
            is_lost = name not in truth.shown and name not in world.service.staged(BOX)
            return is_lost and _is_old(world, stream, truth.named[name][1], age)
        case Kind.REVOKED | Kind.UNNAMED:
            by = re.search(r"version (\d+) has", found.what)
            was_there = name in before or name in truth.visible
            is_due = by is None or _is_old(world, stream, int(by[1]), age)
            return was_there and is_due and not truth.has_live(stream, name)
        case Kind.LOG:
            return found.version is not None and found.version < truth.first[stream]
    return False


def _is_old(world: CompactionWorld, stream: str, version: int, age: timedelta) -> bool:
    put = datetime.fromisoformat(world.truth.log[stream][version].timestamp)
    return (world.utc() - put) >= age

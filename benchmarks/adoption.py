"""What a discovery costs in a folder of a million old blobs, by the number of its partitions: requests and seconds.

    python -m benchmarks.adoption [--blobs 1000000]

The account is in memory, so what a network adds is not measured. The old blobs are names alone: nothing reads them.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from bisect import bisect_left
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console

from arrow_avro import header
from azure_account.memory.account import MemoryAccount
from azure_account.memory.service import PAGE_BLOBS, MemoryService, ServiceAssumptions
from azure_account.retrying.retry_loop import Intercept
from azure_account.service import Page
from azure_account.values import BlobProperties
from azureblob_source.adoption.adopter import Adopter, AdoptionSettings
from azureblob_source.adoption.known_blobs import KnownBlobs
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft
from benchmarks.report import Report, show
from foundation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.retrying.retry_loop import Request

CONTAINER, FOLDER = "captures", "namespace/hub"
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = '{"type":"record","name":"event","fields":[{"name":"n","type":"long"}]}'
DATA = header(SCHEMA, "null", bytes(16))
OLD = '"old"'


class _Names(MemoryService):
    """A service whose folder has old blobs that are names only."""

    def __init__(self, names: list[str], behaviour: ServiceAssumptions, clock: ManualClock) -> None:
        super().__init__(clock=clock, behaviour=behaviour)
        self._names = names

    def list_page(self, container: str, prefix: str, start_from: str | None, marker: str | None, **more: Any) -> Any:
        """The old names with the blobs that are there, in order."""
        found = super().list_page(container, prefix, start_from, marker, **more)
        if not (prefix.startswith(f"{FOLDER}/") or f"{FOLDER}/".startswith(prefix)) or "/_" in prefix:
            return found
        first = max(prefix, (start_from or "") if self.behaviour.lists_from_name else "", marker or "")
        begin = bisect_left(self._names, first)
        old = itertools.islice(self._names, begin, begin + PAGE_BLOBS + 1)
        items = [_listed(name) for name in itertools.takewhile(lambda name: name.startswith(prefix), old)]
        items = sorted((*items, *found.items), key=lambda item: item.name)
        return Page(tuple(items[:PAGE_BLOBS]), items[PAGE_BLOBS].name if len(items) > PAGE_BLOBS else None)


def _listed(name: str) -> BlobProperties:
    return BlobProperties(name, len(DATA), OLD, FIRST)


class _Counting(Intercept):
    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def attempt(self, request: Request, send: Any) -> Any:
        self.seen[{"put": "PUT", "get": "GET", "list": "LIST"}.get(str(request.operation), "HEAD")] += 1
        return send()


def triggers(partitions: int, blobs: int) -> list[dict[str, str | float]]:
    """The lines of one folder, whose old blobs a log has: a trigger with new blobs, and one without."""
    minutes = blobs // partitions
    times = [f"{FIRST + timedelta(minutes=minute):%Y/%m/%d/%H/%M}/00.avro" for minute in range(minutes)]
    names = sorted(f"{FOLDER}/{partition}/{moment}" for partition in range(partitions) for moment in times)
    end = FIRST + timedelta(minutes=minutes)
    service = _Names(names, ServiceAssumptions(), ManualClock(end.timestamp()))
    newest = [(f"{FOLDER}/{partition}/{moment}", OLD) for partition in range(partitions) for moment in times[-20:]]
    lines = []
    for way in (f"{partitions:,} partitions", f"{partitions:,} partitions, by hours"):
        service.behaviour = ServiceAssumptions(lists_from_name="hours" not in way)
        adopter, counting = _process(service, newest)
        adopter.discover()  # learns whether listings begin at a name
        for partition in range(partitions):
            account = MemoryAccount(service)
            account.container(CONTAINER).put(f"{FOLDER}/{partition}/{end:%Y/%m/%d/%H/%M}/00.avro", DATA)
        end += timedelta(minutes=1)
        lines.append(_measured(adopter, counting, f"{way}: a new blob in each"))
        lines.append(_measured(adopter, counting, f"{way}: nothing new"))
    return lines


def _process(service: _Names, newest: list[tuple[str, str]]) -> tuple[Adopter, _Counting]:
    """A process that has listed the folder before: it knows the newest names."""
    counting = _Counting()
    account = MemoryAccount(service)
    account.container(CONTAINER).create()
    container = account.restarted(counting).container(CONTAINER)
    log = CommitLog(container, FOLDER, clock=service.clock)
    adopter = Adopter(log, AdoptionSettings(at_rest=0.0, whole_every=1e9), service.clock)
    head = log.refresh() or log.put(log.next_entry(None, Draft("begin", FIRST.isoformat(), operation="adopt"), -1))
    known = KnownBlobs.of(lambda: newest, len(newest), 1)
    known.add((blob.name, blob.etag or "") for entry in log.history() for blob in entry.blobs)
    adopter._log_id, adopter._version, adopter._known = head.log_id, head.version, known  # noqa: SLF001
    adopter._whole_at = service.clock.monotonic()  # noqa: SLF001
    counting.seen.clear()
    return adopter, counting


def _measured(adopter: Adopter, counting: _Counting, what: str) -> dict[str, str | float]:
    gc.collect()
    before, used = counting.seen.copy(), time.process_time()
    found = adopter.discover()
    taken, made = time.process_time() - used, counting.seen - before
    kinds = {kind: made[kind] for kind in ("LIST", "GET", "HEAD", "PUT")}
    return {"": what, "adopted": found.adopted, **kinds, "names listed": found.listed, "processor s": taken}


def adoption(blobs: int = 1_000_000, partitions: Sequence[int] = (1, 32, 1000)) -> Report:
    """One table."""
    lines = [line for count in partitions for line in triggers(count, blobs)]
    return Report(f"Discovery in a folder of {blobs:,} old blobs", lines, "by hours: the service ignores startFrom")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blobs", type=int, default=1_000_000)
    show(adoption(parser.parse_args().blobs), Console(width=140))


if __name__ == "__main__":
    main()

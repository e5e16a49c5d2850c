"""Random histories: each is a function of its seed. Events are drawn first, so that a failing history can be shrunk."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pytest

    from tests.histories.mutants import Mutant

_REPORTED = 5_000
CAUGHT = Path(__file__).with_name("caught.json")


class Event(NamedTuple):
    """What happens, and two numbers that say where and how; they are read modulo what there is."""

    name: str
    where: int
    how: int

    @property
    def draws(self) -> Random:
        """For an event that needs more than two numbers."""
        return Random(self.where << 16 | self.how)


def draw_events(weights: Mapping[str, int], count: int, draws: Random) -> list[Event]:
    """So many events, by their weights."""
    names = draws.choices(list(weights), list(weights.values()), k=count)
    return [Event(name, draws.getrandbits(16), draws.getrandbits(16)) for name in names]


class History(ABC):
    """Runs the events of a seed, or those that are given, then the end. `lines` is what has happened, if traced."""

    world: Any

    def __init__(self, seed: int, events: Sequence[Event] | None = None, *, trace: bool = False) -> None:
        self.seed = seed
        self.lines: list[str] = []
        draws = Random(seed)
        drawn = self.draw(draws)
        self.events = drawn if events is None else list(events)
        self.ends = Random(draws.getrandbits(32))
        if trace:
            self.world.trace = self.lines.append

    @abstractmethod
    def draw(self, draws: Random) -> list[Event]:
        """Make the world, and draw the events."""

    @abstractmethod
    def end(self) -> None:
        """What happens after the events; then everything is compared with the truth."""

    def happen(self, event: Event) -> None:
        """An event. By default the method of its name."""
        getattr(self, f"_{event.name}")(event.where, event.how)

    def around(self) -> AbstractContextManager[object]:
        """What holds while the history runs."""
        return nullcontext()

    @property
    def seen(self) -> Counter[str]:
        """How often each event was seen."""
        found: Counter[str] = self.world.truth.seen
        return found

    def run(self) -> str | None:
        """The violation that was found, None if all holds."""
        truth = self.world.truth
        with self.around():
            try:
                for event in self.events:
                    self.world.trace(f"{event.name} {event.where} {event.how}")
                    self.happen(event)
                    if truth.violation is not None:
                        break
                else:
                    self.world.trace("the end")
                    self.end()
            except (AssertionError, AzureBlobError) as error:
                truth.fail(f"{type(error).__name__}: {error}")
            finally:
                for process in self.world.alive():
                    process.kill()
        violation: str | None = truth.violation
        return violation


def run_seed(kind: type[History], seed: int) -> tuple[str | None, Counter[str]]:
    """One history: what was violated, and what happened."""
    history = kind(seed)
    return history.run(), history.seen


def check(kind: type[History], seeds: Iterable[int], events: Iterable[str] = ()) -> None:
    """Nothing is violated in these histories, and every one of the events happens in them."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        violation, found = run_seed(kind, seed)
        assert violation is None, f"history {seed}: {violation}"
        seen.update(found)
    check_events(seen, events)


def check_events(seen: Mapping[str, int], events: Iterable[str], least: int = 1) -> None:
    """Each event has happened, `least` times or more."""
    rare = [event for event in events if seen.get(event, 0) < least]
    assert [] == rare, f"{rare} happened too rarely: {dict(seen)}"


def violating(kind: type[History], seeds: Iterable[int]) -> int | None:
    """The first seed whose history violates something."""
    return next((seed for seed in seeds if run_seed(kind, seed)[0] is not None), None)


def caught_by(kind: type[History], name: str) -> tuple[int, ...]:
    """The seed that is known to catch the mutant of this name (see `caught.py`); none if none is known."""
    known = json.loads(CAUGHT.read_text("utf-8")).get(kind.__name__, {})
    return (known[name],) if name in known else ()


def check_caught(
    kind: type[History], name: str, seeds: Iterable[int], mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant violates something in one of these histories; the one that is known to catch it comes first."""
    mutant(monkeypatch)
    assert violating(kind, (*caught_by(kind, name), *seeds)) is not None


def check_repeatable(kind: type[History], seed: int = 7) -> None:
    """A history depends on its seed alone."""
    traces = []
    for _ in range(2):
        history = kind(seed, trace=True)
        history.run()
        traces.append(history.lines)
    assert traces[0]
    assert traces[0] == traces[1]


def shrink(kind: type[History], seed: int, same: Callable[[str], bool] = lambda _: True) -> list[Event]:
    """A shorter list of events that violates the same: events are left out as long as it does."""
    events = kind(seed).events
    size = max(1, len(events) // 2)
    while size:
        at = 0
        while at < len(events):
            fewer = events[:at] + events[at + size :]
            violation = kind(seed, fewer).run()
            if violation is not None and same(violation):
                events = fewer
            else:
                at += size
        size //= 2
    return events


def kind_of(violation: str) -> str:
    """A violation without names and numbers, so that those of one kind are counted together."""
    return re.sub(r"\('[^)]*\)|\b[0-9a-f]{8,}\b|\d+", "·", violation)[:90]


def quiet() -> None:
    """The protocols warn whenever they void, replace or repeat, which is all the time here."""
    logging.disable(logging.WARNING)


def run_many(kind: type[History], seeds: range, processes: int = 2) -> int:
    """Run them, print violations as they come, then what happened. The number of kinds of violations."""
    seen: Counter[str] = Counter()
    failed: dict[str, list[int]] = defaultdict(list)
    started = time.monotonic()
    with Pool(processes, quiet) as pool:
        for number, (violation, events) in enumerate(pool.imap(partial(run_seed, kind), seeds, 50)):
            seen.update(events)
            if violation is not None:
                failed[kind_of(violation)].append(seeds[number])
                print(f"history {seeds[number]}: {violation}", flush=True)
            if (number + 1) % _REPORTED == 0:
                elapsed = time.monotonic() - started
                print(f"{number + 1:>10,} of {len(seeds):,} in {elapsed:.0f} s", file=sys.stderr, flush=True)
    for event, count in sorted(seen.items()):
        print(f"{count:>10,}  {event}")
    print(f"{len(seeds):,} histories in {time.monotonic() - started:.0f} s")
    for violation, found in sorted(failed.items(), key=lambda each: -len(each[1])):
        print(f"{len(found):>6} × {violation}   seeds {found[:8]}")
    return len(failed)


def show(kind: type[History], seed: int, *, shorter: bool) -> int:
    """Print one history. shorter: without the events that its violation does not need. 1 if it violates something."""
    violation = kind(seed).run()
    events = None
    if shorter and violation is not None:
        wanted = kind_of(violation)
        events = shrink(kind, seed, lambda each: kind_of(each) == wanted)
    history = kind(seed, events, trace=True)
    violation = history.run()
    print("\n".join(history.lines))
    print(f"history {seed}: {violation or 'nothing is violated'}")
    return int(violation is not None)

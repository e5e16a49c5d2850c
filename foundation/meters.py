"""How all packages count and measure, through the OpenTelemetry API: their instruments by tables.

Something is counted after it has happened. Without an OpenTelemetry SDK in the process, counting does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from foundation.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from opentelemetry.metrics import Counter, Observation

Table: TypeAlias = Mapping[str, tuple[str, str]]
"""Unit and description of each instrument, by its name."""


class Meters:
    """The instruments of one package, each made when it is first used; `KeyError` for an unknown one. Thread-safe."""

    def __init__(self, package: str, **tables: Table) -> None:
        """tables: `counter`, `up_down_counter`, `histogram`, `gauge`, `observable_gauge`: those that it has."""
        self._package, self._tables = package, tables
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}
        self._observed: dict[Hashable, tuple[Mapping[str, str], Callable[[], Mapping[str, float]]]] = {}

    def counter(self, name: str) -> Counter:
        """A counter, for callers that choose the attributes of each value themselves."""
        made: Counter = self.instrument("counter", name)
        return made

    def instrument(self, kind: str, name: str) -> Any:
        """An instrument of a table."""
        from opentelemetry import metrics  # noqa: PLC0415 - most of Spark's processes count nothing

        with self._lock:
            if name not in self._made:
                unit, description = self._tables[kind][name]
                more = {"callbacks": [lambda _: list(self._values(name))]} if kind == "observable_gauge" else {}
                create = getattr(metrics.get_meter(self._package), f"create_{kind}")
                self._made[name] = create(f"{self._package}.{name}", unit=unit, description=description, **more)
            return self._made[name]

    def observe(self, key: Hashable, attributes: Mapping[str, str], read: Callable[[], Mapping[str, float]]) -> None:
        """Report what `read` returns, by gauge, at each export until `close`. It must be quick."""
        with self._lock:
            self._observed[key] = attributes, read
        for name in self._tables["observable_gauge"]:
            self.instrument("observable_gauge", name)

    def close(self, key: Hashable) -> None:
        """Report no gauges for this key any more."""
        with self._lock:
            self._observed.pop(key, None)

    def _values(self, gauge: str) -> Iterator[Observation]:
        from opentelemetry import metrics  # noqa: PLC0415 - as above

        with self._lock:
            observed = list(self._observed.values())
        for attributes, read in observed:
            value = read().get(gauge)
            if value is not None:
                yield metrics.Observation(value, attributes)


class Metrics:
    """The values of one thing, such as a store: all have its attributes. Thread-safe.

    key: whose gauges these are, if not this object's: of two with one key only the last is reported.
    """

    def __init__(self, meters: Meters, attributes: Mapping[str, str], key: Hashable = None) -> None:
        self._meters, self._attributes, self._key = meters, attributes, self if key is None else key

    def count(self, name: str, number: int = 1, **attributes: str) -> None:
        """Add to a counter."""
        counter = self._meters.counter(name)
        if number:
            counter.add(number, {**self._attributes, **attributes})

    def add(self, name: str, number: int) -> None:
        """Add to a counter that goes up and down."""
        self._meters.instrument("up_down_counter", name).add(number, self._attributes)

    def set(self, name: str, value: float) -> None:
        """Set a gauge of the table `gauge`, which shows this value until the next one."""
        self._meters.instrument("gauge", name).set(value, self._attributes)

    @contextmanager
    def count_failures(self, name: str, **attributes: str) -> Iterator[None]:
        """Count the block if it fails; its error is raised."""
        try:
            yield
        except Exception:
            self.count(name, 1, **attributes)
            raise

    def record(self, name: str, seconds: float, **attributes: str) -> None:
        """Add a duration to a histogram."""
        self._meters.instrument("histogram", name).record(seconds, {**self._attributes, **attributes})

    @contextmanager
    def measured(self, name: str, **attributes: str) -> Iterator[None]:
        """Record the duration of the block in a histogram, unless it fails."""
        began = SYSTEM_CLOCK.monotonic()
        yield
        self.record(name, SYSTEM_CLOCK.monotonic() - began, **attributes)

    def observe(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Report the gauges that `read` returns, at each export until `close`. It must be quick."""
        self._meters.observe(self._key, self._attributes, read)

    def close(self) -> None:
        """Report no gauges any more."""
        self._meters.close(self._key)

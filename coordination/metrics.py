"""What processors and leaders count and measure, through the OpenTelemetry API.

Something is counted after it has happened. Without an OpenTelemetry SDK in the process, counting does nothing. Every
value has the attributes `job` and `processor`: the name that was given, without the unique ending of an id.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics
from opentelemetry.metrics import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions, Counter, Histogram

COUNTERS: Mapping[str, tuple[str, str]] = {
    "termsBegun": ("{term}", "terms that the process has begun as the leader"),
    "termsEnded": ("{term}", "terms that are over; `reason` is late, taken, refused or resigned"),
    "heartbeatsSent": ("{heartbeat}", "heartbeats that storage has confirmed"),
    "heartbeatsFailed": ("{heartbeat}", "heartbeats that got no answer, or were refused"),
    "jobModelsPublished": ("{model}", "versions of the job model that the leader has published"),
    "barriersTimedOut": ("{barrier}", "barriers that ended without all processors of the model"),
    "processorsForgotten": ("{processor}", "dead processors whose rows the leader has deleted"),
    "tasksReassigned": ("{task}", "tasks that nobody ran after the barrier, and that the leader has given away again"),
    "joinsAnew": ("{join}", "times that the processor has joined under a new id, its heartbeats being overdue"),
    "tasksBegun": ("{task}", "tasks that the listener has begun"),
    "tasksStopped": ("{task}", "tasks that the listener has stopped"),
}
GAUGES: Mapping[str, tuple[str, str]] = {
    "leads": ("1", "1 while the process leads, else 0"),
    "epoch": ("1", "the leader's epoch, as last read"),
    "jobModelVersion": ("1", "the version of the job model, as last read"),
    "tasksRunning": ("{task}", "tasks that the processor runs"),
    "processorsAlive": ("{processor}", "processors alive as the leader sees them; only the leader reports it"),
}
HISTOGRAMS: Mapping[str, tuple[str, str]] = {
    "barrierSeconds": ("s", "from the leader's first sight of START to the publication of END"),
    "listenerSeconds": ("s", "a call of the listener; `call` is begin or stop"),
}


class ProcessorMetrics:
    """The values of one processor. Thread-safe."""

    def __init__(self, job: str, processor: str) -> None:
        self._attributes = {"job": job, "processor": processor}
        self._read: Callable[[], Mapping[str, int]] = dict

    def count(self, name: str, number: int = 1, **attributes: str) -> None:
        """Add to one of `COUNTERS`."""
        counter = _counter(name)
        if number:
            counter.add(number, {**self._attributes, **attributes})

    def record(self, name: str, seconds: float, **attributes: str) -> None:
        """Add a duration to one of `HISTOGRAMS`."""
        _histogram(name).record(seconds, {**self._attributes, **attributes})

    def observe(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Report the values of `GAUGES` that `read` returns, at each export until `close`. `read` must be quick."""
        self._read = read
        with _lock:
            _observed.add(self)
        for name in GAUGES:
            _gauge(name)

    def close(self) -> None:
        """Report no gauges any more."""
        with _lock:
            _observed.discard(self)

    def observation(self, gauge: str) -> Iterator[Observation]:
        """The present value of a gauge, if it has one."""
        value = self._read().get(gauge)
        if value is not None:
            yield Observation(value, self._attributes)


_lock = threading.Lock()
_observed: set[ProcessorMetrics] = set()


@lru_cache
def _counter(name: str) -> Counter:
    unit, description = COUNTERS[name]
    return metrics.get_meter("coordination").create_counter(f"coordination.{name}", unit, description)


@lru_cache
def _histogram(name: str) -> Histogram:
    unit, description = HISTOGRAMS[name]
    return metrics.get_meter("coordination").create_histogram(f"coordination.{name}", unit, description)


@lru_cache
def _gauge(name: str) -> object:
    def observe(_: CallbackOptions) -> Sequence[Observation]:
        with _lock:
            observed = list(_observed)
        return [observation for each in observed for observation in each.observation(name)]

    unit, description = GAUGES[name]
    meter = metrics.get_meter("coordination")
    return meter.create_observable_gauge(f"coordination.{name}", [observe], unit, description)

"""What processors and leaders count and measure (`foundation.meters`).

Every value has the attributes `job` and `processor`: the name that was given, without the unique ending of an id.
"""

from __future__ import annotations

from foundation.meters import Meters, Metrics, Table

COUNTERS: Table = {
    "termsBegun": ("{term}", "terms that the process has begun as the leader"),
    "termsEnded": ("{term}", "terms that are over; `reason` is late, taken, refused or resigned"),
    "heartbeatsSent": ("{heartbeat}", "heartbeats that storage has confirmed"),
    "heartbeatsFailed": ("{heartbeat}", "heartbeats that got no answer, or were refused"),
    "jobModelsPublished": ("{model}", "versions of the job model that the leader has published"),
    "barriersTimedOut": ("{barrier}", "barriers that ended without all processors of the model"),
    "processorsForgotten": ("{processor}", "dead processors whose rows the leader has deleted"),
    "tasksReassigned": ("{task}", "tasks that nobody ran after the barrier, and that the leader has given away again"),
    "rejoins": ("{join}", "times that the processor has joined under a new id, its heartbeats being overdue"),
    "tasksBegun": ("{task}", "tasks that the listener has begun"),
    "tasksStopped": ("{task}", "tasks that the listener has stopped"),
    "queriesFailed": ("{failure}", "times that the query of a `task` has failed, and was not fenced"),
}
GAUGES: Table = {
    "leads": ("{leader}", "1 while the process leads, else 0"),
    "epoch": ("{epoch}", "the leader's epoch, as last read"),
    "jobModelVersion": ("{version}", "the version of the job model, as last read"),
    "tasks": ("{task}", "tasks of the job model, as last read"),
    "tasksRunning": ("{task}", "tasks that the processor runs"),
    "processorsAlive": ("{processor}", "processors alive as the leader sees them; only the leader reports it"),
}
HISTOGRAMS: Table = {
    "barrierSeconds": ("s", "from the leader's first sight of START to the publication of END"),
    "listenerSeconds": ("s", "a call of the listener; `call` is begin or stop"),
}


METERS = Meters("coordination", counter=COUNTERS, observable_gauge=GAUGES, histogram=HISTOGRAMS)


class ProcessorMetrics(Metrics):
    """The values of one processor."""

    def __init__(self, job: str, processor: str) -> None:
        super().__init__(METERS, {"job": job, "processor": processor})

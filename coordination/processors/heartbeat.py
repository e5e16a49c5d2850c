"""The heartbeats of one processor: what its row says next, and when the others may take it for dead. Pure.

    it counts up in its row ─► the row says that it leads in epoch 7 ─► renewals of the lease count, and the row rests
           ▲                                                                         │
           └────────────── renewals are late, or it steps down ◄─────────────────────┘

It is judged by its lease as soon as its row may say that it leads, and until its row is known not to say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordination.processors.coordinator_state import ProcessorDeclaration, ProcessorRow


@dataclass(frozen=True)
class Heartbeat:
    """The last heartbeat of a processor. Times are seconds of its monotonic clock.

    stated, counter: of the row that was written last, whether storage has confirmed it or not.
    confirmed_at: when the last heartbeat that was confirmed had begun.
    led: the epoch in which the renewals of the lease are its heartbeats.
    confirmed_epoch: the epoch in which it leads by the last row that storage has confirmed.
    expired: it was overdue, and stays so until it has joined again: others may have its tasks.
    """

    stated: ProcessorDeclaration
    confirmed_at: float
    counter: int = 0
    led: int | None = None
    confirmed_epoch: int | None = None
    expired: bool = False

    def overdue(self, now: float, leads: int | None, after: float) -> bool:
        """Whether the others may take the processor for dead soon, so that it must not act.

        leads: the epoch in which it leads at this moment. after: seconds without a confirmed heartbeat.
        """
        if self.expired:
            return True
        return now - self.confirmed_at >= after if self.led is None else leads != self.led

    def due(self, renewed: int | None, waits: str) -> bool:
        """Whether the row is to be written. renewed: the epoch in which the lease was renewed lately."""
        return renewed is None or self.confirmed_epoch != renewed or waits != self.stated.waits

    def counted_up(self, renewed: int | None, waits: str) -> Heartbeat:
        """The next heartbeat, before its row is written: from now on the row may say that the processor leads."""
        stated = replace(self.stated, leads=renewed, waits=waits)
        return replace(self._next(stated), led=self.led if renewed is None else renewed)

    def moved(self) -> Heartbeat:
        """The heartbeat in a row under another version, with the same statements."""
        return self._next(replace(self.stated, leads=self.led))

    def left(self, away: float) -> Heartbeat:
        """The processor has stopped in order, and keeps its tasks for `away` seconds."""
        return self._next(replace(self.stated, leads=None, away=away))

    def rejoining(self) -> Heartbeat:
        """The first one under another id."""
        return replace(self._next(replace(self.stated, leads=None)), led=None, confirmed_epoch=None, expired=True)

    def rejoined(self, begun: float) -> Heartbeat:
        """Storage has confirmed the first row under another id."""
        return replace(self, confirmed_at=begun, expired=False)

    def confirmed(self, leads: int | None, begun: float) -> Heartbeat:
        """Storage has confirmed a row in time that says that the processor leads in this epoch, or not."""
        return replace(self, led=leads, confirmed_epoch=leads, confirmed_at=begun)

    def row(self, processor: str, version: int | None) -> ProcessorRow:
        """The processor's row, under the version of the job model that it has confirmed."""
        return ProcessorRow(processor, version, self.counter, self.stated)

    def _next(self, stated: ProcessorDeclaration) -> Heartbeat:
        return replace(self, counter=self.counter + 1, stated=stated)

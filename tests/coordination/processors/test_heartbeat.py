"""When a processor may act: random heartbeats, whose rows arrive, are lost, or arrive without an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from coordination.processors.coordinator_state import ProcessorDeclaration, ProcessorRow
from coordination.processors.heartbeat import Heartbeat

AFTER = 12.0
FIRST = Heartbeat(ProcessorDeclaration(14.0, "digest", "one"), confirmed_at=0.0)


@dataclass
class StoredRow:
    """What storage has, and the last moments that others count from."""

    row: ProcessorRow
    counted_at: float = 0.0


epochs = st.none() | st.integers(1, 3)
answers = st.sampled_from(("done", "lost answer", "lost"))


@given(st.lists(st.tuples(st.floats(0, 8), epochs, answers, st.sampled_from(("", "its listener")))))
def test_who_is_not_overdue_has_counted_up_lately_or_its_row_says_that_it_leads(
    steps: list[tuple[float, int | None, str, str]],
) -> None:
    last, now, stored = FIRST, 0.0, StoredRow(FIRST.row("p", None))
    for seconds, leads, answer, waits in steps:
        now += seconds
        if last.overdue(now, leads, AFTER):
            last = replace(last, expired=True)
            assert last.overdue(now, last.led, AFTER), "it stays so"
            continue
        assert last.due(leads, waits) or (leads, waits) == (last.confirmed_epoch, last.stated.waits)
        assert last.due(None, waits), "who does not lead counts up always"
        if leads is not None and leads == last.confirmed_epoch == stored.row.stated.leads:
            assert not last.due(leads, last.stated.waits)
            continue  # the lease protects it, and the next leader knows by the row that it does
        assert now - stored.counted_at < AFTER or leads == last.led
        if last.due(leads, waits):
            last = last.counted_up(leads, waits)
            if answer != "lost":
                assert last.counter > stored.row.counter
                stored = StoredRow(last.row("p", 7), now)
            if answer == "done":
                last = last.confirmed(leads, now)
                assert (leads, waits, leads) == (stored.row.stated.leads, stored.row.stated.waits, last.confirmed_epoch)


@given(epochs, epochs)
def test_it_goes_by_the_lease_as_soon_as_its_row_may_say_so_until_its_row_surely_does_not(
    first: int | None, second: int | None
) -> None:
    """The two rows may have arrived, or not."""
    last = FIRST.counted_up(first, "")
    assert first == last.led
    after = last.counted_up(second, "")
    assert (first if second is None else second) == after.led
    assert second == after.confirmed(second, 5.0).led
    for leads in (None, 1, 2, 3):
        expected = leads != after.led if after.led is not None else False
        assert expected == after.overdue(1.0, leads, AFTER)


def test_a_row_under_another_version_says_the_same_and_one_that_is_left_is_away() -> None:
    led = FIRST.counted_up(3, "its listener").confirmed(3, 4.0)
    assert ProcessorRow("p", 8, 2, replace(led.stated, leads=3)) == led.moved().row("p", 8)
    left = led.left(60.0)
    assert (60.0, None, 2) == (left.stated.away, left.stated.leads, left.counter)


def test_who_joins_again_is_overdue_until_its_row_is_confirmed_and_its_counter_goes_on() -> None:
    led = FIRST.counted_up(3, "").confirmed(3, 4.0)
    joining = led.rejoining()
    assert (2, None, None) == (joining.counter, joining.stated.leads, joining.led)
    assert joining.overdue(5.0, None, AFTER)
    joined = joining.rejoined(5.0)
    assert not joined.overdue(16.9, None, AFTER)
    assert joined.overdue(17.0, None, AFTER)

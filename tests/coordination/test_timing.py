from __future__ import annotations

import pytest

from coordination.timing import LeaseTiming
from foundation.errors import ConfigurationError


def test_the_durations_of_a_lease_are_in_the_proportions_of_the_default() -> None:
    assert LeaseTiming() == LeaseTiming.of_duration(30, 5)
    for duration in (15, 60):
        timing = LeaseTiming.of_duration(duration, 2)
        assert (duration, 2) == (timing.duration, timing.poll_every)
        assert 2 * timing.renew_every + timing.request + timing.margin <= duration


@pytest.mark.parametrize("duration", [5, 14, 61, 0, -1])
def test_a_lease_that_the_service_does_not_have_is_refused(duration: int) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"duration of LeaseTiming is {duration}: give a whole number from 15 to 60"
    ):
        LeaseTiming.of_duration(duration, 5)

"""Names and durations that cannot be are refused before any request, with the rule."""

from __future__ import annotations

from typing import Any

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from coordination.names import names_of
from coordination.processors.coordinator import JobCoordinator
from coordination.timing import CoordinatorTiming, LeaseTiming
from foundation.errors import ConfigurationError


class Nobody:
    """A listener that is never called."""

    def on_new_job_model(self, tasks: object) -> None: ...
    def on_job_model_expired(self, tasks: object) -> None: ...
    def on_coordinator_stop(self) -> None: ...
    def on_coordinator_failure(self, error: Exception) -> None: ...


@pytest.fixture
def account() -> MemoryAccount:
    account = MemoryAccount()
    account.container("box").create()
    return account


@pytest.mark.parametrize("name", ["a/b", "a\\b", "a#b", "a?b", "a\nb", "", "x" * 201])
def test_a_processor_s_name_that_a_table_refuses_is_refused_before_any_request(
    account: MemoryAccount, name: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"Table key .* is not valid|processor's name .* characters: give 1"):
        JobCoordinator(Location.in_account(account, "box/flights"), tasks=["t"], listener=Nobody(), processor=name)


@pytest.mark.parametrize("job", [".", "..", "a/..", "%", "höst\n"])
def test_a_job_s_name_of_dots_and_signs_works_or_is_refused_before_any_request(
    account: MemoryAccount, job: str
) -> None:
    names = names_of("box", job)
    account.container("box").put(names.blob, b"1")
    account.table(names.processors).create()
    assert names.blob.split("/")[1] not in {".", ".."}


def test_a_job_s_name_that_is_too_long_when_it_is_quoted_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="it has .* characters, not 1 to 1024"):
        names_of("box", "\U0001f6eb" * 100)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heartbeat": 0}, "heartbeat of CoordinatorTiming is 0: give a number of seconds above 0"),
        ({"death": -1}, "death of CoordinatorTiming is -1"),
        ({"margin": float("nan")}, "margin of CoordinatorTiming is nan"),
        ({"request": float("inf")}, "request of CoordinatorTiming is inf"),
        ({"barrier": "1 h"}, "barrier of CoordinatorTiming is '1 h': give a number"),
        (
            {"heartbeat": 11},
            r"2 x heartbeat \(11\) \+ request \(5.0\) \+ margin \(2.0\) is 29.0 seconds, more than death \(14.0\)",
        ),
        ({"request": 16}, r"request \(16\)"),
        ({"margin": 16}, r"margin \(16\)"),
        ({"death": 12}, r"more than death \(12\)"),
        (
            {"barrier": 13},
            r"barrier \(13\) is less than death \(14.0\): .* before it is dead. Give the barrier more time",
        ),
    ],
)
def test_durations_that_contradict_each_other_are_refused_with_the_rule(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CoordinatorTiming(**given)


@pytest.mark.parametrize("name", ["renew_every", "poll_every", "request", "margin"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "five", None])
def test_a_duration_of_a_lease_is_a_number_above_0(name: str, value: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=f"{name} of LeaseTiming is {value!r}: give a number of seconds above 0"
    ):
        LeaseTiming(**{name: value})


def test_durations_at_their_limits_are_allowed() -> None:
    CoordinatorTiming(heartbeat=5, death=20, margin=5, request=5, barrier=20)
    LeaseTiming(duration=30, renew_every=10, request=5, margin=5)

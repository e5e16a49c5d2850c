"""Arguments are compared with annotations: what is read, what is refused, and what the error says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from foundation.arguments import Count, Epoch, Name, Options, Seconds, checked
from foundation.errors import ConfigurationError


class Listener(Protocol):
    """Has one method."""

    def on_end(self) -> None: ...


@checked
@dataclass(frozen=True)
class Job:
    """One of each kind of annotation."""

    count: Count = 1
    seconds: Seconds = 1.0
    folder: Path | str | None = None
    kind: Literal["inner", "left"] = "inner"
    any_: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] | str = ()
    yes: bool = False
    tasks: int | Sequence[str] = 1
    options: Options = field(default_factory=dict)
    stores: Mapping[str, Path | str] = field(default_factory=dict)
    listener: Listener | None = None
    start: Callable[[int], int] | None = None


@checked
def open_epoch(name: Name, *more: str, epoch: Epoch = 0) -> tuple[str, tuple[str, ...], int]:
    return name, more, epoch


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"count": "3"}, 3),
        ({"seconds": "2.5"}, 2.5),
        ({"yes": "True"}, True),
        ({"tasks": "5"}, 5),
        ({"names": "5"}, "5"),
        ({"options": {"a": True, "b": 5, "c": "x"}}, {"a": "true", "b": "5", "c": "x"}),
    ],
)
def test_a_text_that_is_a_number_is_read_where_a_number_belongs(given: dict[str, Any], read: object) -> None:
    [name] = given
    found = getattr(Job(**given), name)
    assert (read, type(read)) == (found, type(found))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "count of Job is 0: give a whole number of at least 1."),
        ({"seconds": float("nan")}, "seconds of Job is nan: give a number of seconds above 0, at most 1000000000."),
        ({"folder": 5}, "folder of Job is 5: give a path or a text."),
        ({"kind": "outer"}, "kind of Job is 'outer': give 'inner' or 'left'."),
        ({"any_": []}, "any_ of Job is of type list: give a dictionary."),
        ({"names": ["a", 1]}, "names of Job has the item 1: give a text."),
        ({"yes": 1}, "yes of Job is 1: give True or False."),
        ({"tasks": None}, "tasks of Job is None: give a whole number or a list."),
        ({"options": {"a": None}}, "options of Job has for a the value None: give a text, or leave the option out."),
        ({"options": {1: "a"}}, "options of Job has the key 1: give a text."),
        ({"stores": {"a": 3}}, "stores of Job has for 'a' the value 3: give a path or a text."),
        ({"listener": "me"}, "listener of Job is 'me': give a Listener."),
        ({"start": 3}, "start of Job is 3: give a function."),
    ],
)
def test_what_the_annotation_does_not_allow_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Job(**given)
    assert f"Argument {message}" == str(raised.value)


def test_what_may_be_a_secret_is_not_shown() -> None:
    secret = "AccountKey=c2VjcmV0LWtleQ=="
    for given in ({"count": secret}, {"any_": secret}, {"stores": {"a": [secret]}}, {"kind": secret}):
        with pytest.raises(ConfigurationError) as raised:
            Job(**given)
        assert secret[:12] not in str(raised.value)


def test_arguments_that_are_allowed_are_passed_on_as_they_are() -> None:
    names, stores = ["a"], {"a": "x"}
    job = Job(names=names, stores=stores)
    assert names is job.names
    assert stores is job.stores
    assert ("a", ("b", "c"), 7) == open_epoch("a", "b", "c", epoch=7)


def test_an_implementation_of_a_protocol_is_asked_for_no_property() -> None:
    class Gone:
        def on_end(self) -> None: ...

        @property
        def state(self) -> str:
            raise ConnectionRefusedError

    assert isinstance(Job(listener=Gone()).listener, Gone)


def test_a_missing_argument_is_python_s_own_error() -> None:
    with pytest.raises(TypeError, match=r"open_epoch\(\) missing 1 required positional argument: 'name'"):
        open_epoch()  # type: ignore[call-arg]

"""Mistakes put into the code under test, to show that the tests catch them. Each is a patch of one named function.

`edited` replaces a piece of a function's text and fails if the piece is not there, so that a mutant cannot go dead.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

Mutant = Callable[[pytest.MonkeyPatch], None]


def edited(place: str, old: str, new: str) -> Mutant:
    """A mutant: `old` is replaced by `new` in the text of a function, for everybody who has imported it."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        owner, name = _found(place)
        function: Any = inspect.unwrap(getattr(owner, name))
        source = textwrap.dedent(inspect.getsource(function))
        assert 1 == source.count(old), f"{function.__qualname__} has changed: adapt the mutant"
        flags = __future__.annotations.compiler_flag
        code = compile(source.replace(old, new), function.__code__.co_filename, "exec", flags=flags)
        made: dict[str, Any] = {}
        exec(code, function.__globals__, made)  # noqa: S102 - a function of ours, with one piece exchanged
        mutated = inspect.unwrap(made[function.__name__])
        assert isinstance(mutated, FunctionType)
        monkeypatch.setattr(function, "__code__", mutated.__code__)

    return patch


def replaced(place: str, by: Callable[..., object]) -> Mutant:
    """A mutant: a function of a module gives something else to that module."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(*_found(place), by)

    return patch


def both(*mutants: Mutant) -> Mutant:
    """A mutant of several patches."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in mutants:
            each(monkeypatch)

    return patch


def _found(place: str) -> tuple[Any, str]:
    """The owner and the name of `package.module:function` or `package.module:Class.method`."""
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    assert hasattr(owner, name), f"{place} is no more: adapt the mutant"
    return owner, name

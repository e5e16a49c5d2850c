"""A table of options, from which values are parsed, errors explained and the page of the manual printed.

The case of keys is ignored, because Spark lower-cases the keys that it passes to a Python data source. This is the only
place where strings become typed values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

T = TypeVar("T")


@dataclass(frozen=True)
class Parser(Generic[T]):
    """Parses one value. `read` raises `ValueError` for a malformed one; `expected` completes "expected …"."""

    expected: str
    read: Callable[[str], T]

    def __call__(self, value: str) -> T:
        """The typed value, or `ValueError`."""
        return self.read(value)


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option. If its name ends in `.*`, all keys with that prefix are collected in a dict (suffix → value).

    help: one sentence for the manual. group: its heading there.
    secret: no message shows the value.
    shown_default: what the manual shows instead of the default.
    """

    name: str
    parse: Parser[T]
    default: T | None
    help: str
    group: str
    secret: bool = False
    shown_default: str | None = None

    @property
    def prefix(self) -> str | None:
        """`metadata.` of `metadata.*`; None for a plain option."""
        return self.name[:-1] if self.name.endswith(".*") else None

    def value_of(self, key: str, raw: str) -> T:
        """Parse `raw`, the value of `key`. `ConfigurationError` has key, value (unless secret) and what is expected."""
        try:
            return self.parse(raw)
        except ValueError as bad:
            shown = "" if self.secret else f" {raw!r}"
            detail = f" ({bad})" if str(bad) and not self.secret else ""
            raise ConfigurationError(
                f"Option `{key}`: the value{shown} is not valid{detail}; expected {self.parse.expected}."
            ) from None


class ParsedOptions(Mapping[str, Any]):
    """Typed values of all options of a table by name, with defaults. `given` has the names of those that were set."""

    def __init__(self, values: Mapping[str, Any], given: Iterable[str], secrets: Iterable[str] = ()) -> None:
        self._values = dict(values)
        self.given: frozenset[str] = frozenset(given)
        self._secrets = frozenset(secrets)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {name: "***" if name in self._secrets else self._values[name] for name in sorted(self.given)}
        return f"ParsedOptions({shown})"


@dataclass(frozen=True)
class OptionTable:
    """Options in the order of the manual. `+` joins two tables.

    hints: sentences for keys that are not options but are known from other products; these keys are in lower case.
    """

    options: Sequence[Option[Any]]
    hints: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [option.name.lower() for option in self.options]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"options defined twice: {', '.join(twice)}")

    def __add__(self, other: OptionTable) -> OptionTable:
        return OptionTable((*self.options, *other.options), {**self.hints, **other.hints})

    def parse(self, raw: Mapping[str, str], *, hidden: Collection[str] = ()) -> ParsedOptions:
        """Parse all of `raw`. `ConfigurationError` for an unknown key (proposes the nearest) or a malformed value.

        Options of the groups `hidden` are parsed too, but not proposed for an unknown key.
        """
        plain = {option.name.lower(): option for option in self.options if option.prefix is None}
        values: dict[str, Any] = {
            option.name: option.default if option.prefix is None else dict(option.default or {})
            for option in self.options
        }
        given = set()
        for key, value in raw.items():
            option = plain.get(key.lower()) or self._of_prefix(key)
            if option is None:
                raise ConfigurationError(self._unknown(key, hidden))
            given.add(option.name)
            typed = option.value_of(option.name if option.prefix is None else key, value.strip())
            if option.prefix is None:
                values[option.name] = typed
            else:
                values[option.name][key[len(option.prefix) :]] = typed
        return ParsedOptions(values, given, (option.name for option in self.options if option.secret))

    def secrets(self) -> frozenset[str]:
        """Lower-case names of the options whose values no message shows."""
        return frozenset(option.name.lower() for option in self.options if option.secret)

    def _of_prefix(self, key: str) -> Option[Any] | None:
        for option in self.options:
            if option.prefix and key.lower().startswith(option.prefix.lower()) and len(key) > len(option.prefix):
                return option
        return None

    def _unknown(self, key: str, hidden: Collection[str]) -> str:
        known = self.hints.get(key.lower())
        if known is not None:
            return f"Option `{key}` is unknown. {known}"
        names = {option.name.lower(): option.name for option in self.options if option.group not in hidden}
        near = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.7)
        hint = f" Did you mean {names[near[0]]}?" if near else f" The options are {', '.join(names.values())}."
        return f"Option `{key}` is unknown.{hint}"


def text() -> Parser[str]:
    """Text that is not empty."""

    def read(value: str) -> str:
        if not value:
            raise ValueError("it is empty")
        return value

    return Parser("text", read)


def text_list() -> Parser[tuple[str, ...]]:
    """Names separated by commas."""

    def read(value: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            raise ValueError("a name is empty")
        return names

    return Parser("names separated by commas", read)


def boolean() -> Parser[bool]:
    """`true` or `false`, in any case."""

    def read(value: str) -> bool:
        match value.lower():
            case "true":
                return True
            case "false":
                return False
        raise ValueError

    return Parser("`true` or `false`", read)


def one_of(*choices: str) -> Parser[str]:
    """One of the words, in any case; the value is the word as it is spelled in `choices`."""

    def read(value: str) -> str:
        for choice in choices:
            if choice.lower() == value.lower():
                return choice
        near = difflib.get_close_matches(value, choices, n=1)
        raise ValueError(f"did you mean {near[0]}?" if near else "")

    return Parser("one of " + ", ".join(f"`{choice}`" for choice in choices), read)


def integer(minimum: int, maximum: int | None = None) -> Parser[int]:
    """An integer from `minimum` to `maximum`, both included."""
    limits = f"from {minimum} to {maximum}" if maximum is not None else f"of at least {minimum}"
    return Parser(f"an integer {limits}", lambda value: _within(int(value), minimum, maximum))


_MOST_BYTES = 2**63 - 1
_BYTE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def byte_size(minimum: int = 1, maximum: int | None = None) -> Parser[int]:
    """Bytes: an integer alone, or with k, m, g or t (`10MiB`, `64k`), which are powers of 1024, as in Spark."""

    def read(value: str) -> int:
        match = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", value.lower())
        if match is None:
            raise ValueError
        return _within(int(match[1]) * _BYTE_UNITS[match[2]], minimum, maximum or _MOST_BYTES)

    limits = f"{minimum} to {maximum}" if maximum is not None else f"at least {minimum}"
    return Parser(f"a number of bytes such as `10485760`, `10MiB` or `64k` ({limits})", read)


_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST = 36_500 * _MILLISECONDS["d"]


def milliseconds(minimum: int = 1, maximum: int | None = None) -> Parser[int]:
    """Milliseconds: an integer alone, or with a unit: `500ms`, `30s`, `5m`, `1h`."""
    limits = f"{minimum} to {maximum}" if maximum is not None else f"at least {minimum}"
    expected = f"milliseconds such as `500` or `30s` ({limits})"
    return Parser(expected, lambda value: _within(_duration(value, "ms"), minimum, maximum))


def seconds(minimum: float = 0, maximum: float | None = None) -> Parser[float]:
    """Seconds as a float, from an integer alone, or with a unit: `500ms`, `30s`, `5m`, `1h`."""
    limits = f"{minimum} to {maximum}" if maximum is not None else f"at least {minimum}"

    def read(value: str) -> float:
        found = _duration(value, "s") / 1000
        if found < minimum or (maximum is not None and found > maximum):
            raise ValueError("it is out of range")
        return found

    return Parser(f"seconds such as `30` or `5m` ({limits})", read)


def interval() -> Parser[timedelta]:
    """A length of time above zero, with a unit: `7 days`, `12h`."""

    def read(value: str) -> timedelta:
        short = re.sub(r"(?<=[dhms])(?:ays?|ours?|in(?:utes?)?|ec(?:onds?)?)$", "", value.strip().lower())
        found = 0 if short.isdigit() else _duration(short, "s")
        if found == 0:
            raise ValueError("it has no unit, or is zero")
        return timedelta(milliseconds=found)

    return Parser("an interval such as `7 days` or `12h`", read)


def instant() -> Parser[datetime]:
    """A time in ISO 8601, in UTC unless it has another offset; a date alone is its midnight."""

    def read(value: str) -> datetime:
        found = datetime.fromisoformat(value.upper())
        try:
            return (found.replace(tzinfo=UTC) if found.tzinfo is None else found).astimezone(UTC)
        except OverflowError:
            raise ValueError("in UTC it is before the year 1 or after 9999") from None

    return Parser("a time such as `2013-01-31`, `2013-01-31T12:00:00Z` or `2013-01-31T12:00:00+01:00`", read)


def _duration(value: str, default_unit: str) -> int:
    match = re.fullmatch(r"(\d+)\s*(ms|s|min|m|h|d|)", value.lower())
    if match is None:
        raise ValueError
    return _within(int(match[1]) * _MILLISECONDS[match[2] or default_unit], 0, _LONGEST)


def _within(value: int, minimum: int, maximum: int | None) -> int:
    if value < minimum or (maximum is not None and value > maximum):
        raise ValueError("it is out of range")
    return value

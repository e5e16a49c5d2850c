"""Control messages as the objects that a log entry lists. Pure.

Each message is listed once, with all partitions that received it: a thousand watermarks sent to a hundred partitions
are a thousand objects `{"type": "watermark", …fields of the message…, "partitions": "all"}`, and `["0", "7"]` if not
all of the `partitionCount` have received it. Without a `partitionColumn` there is no `partitions`. An entry of a batch
log names the `stream` of each message too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from azureblob_source.log.entry import ALL_PARTITIONS, all_partitions, partitions_of
from control_messages.messages import EARLIEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_UNTIMED = EARLIEST - 1
_MANY_DIGITS = 2000  # no level has as many
_Levels = tuple[str | None, ...]


def merged(messages: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Each message once, with all its partitions, in order of first appearance.

    Of several watermarks for the same task and partition, written by different Spark tasks, the latest is kept.
    """
    by_key: dict[tuple[tuple[str, Any], ...], dict[_Levels, int]] = {}
    for message in messages:
        key = tuple((name, value) for name, value in message.items() if name not in ("timestamp", "partitions"))
        latest = by_key.setdefault(key, {})
        levels, time = partitions_of(message), message.get("timestamp", _UNTIMED)
        latest[levels] = max(time, latest.get(levels, time))
    return tuple(each for key, latest in by_key.items() for each in _merged_objects(dict(key), latest))


def _merged_objects(message: dict[str, Any], latest: Mapping[_Levels, int]) -> Iterator[dict[str, Any]]:
    """The objects of messages that differ only in timestamp and partitions."""
    of_level: dict[str | None, int] = {}
    for levels, time in latest.items():
        for level in levels:
            of_level[level] = max(time, of_level.get(level, time))
    by_time: dict[int, list[str | None]] = defaultdict(list)
    for level, time in of_level.items():
        by_time[time].append(level)
    for time, same in by_time.items():
        yield from objects_of(message if time == _UNTIMED else {**message, "timestamp": time}, same)


def objects_of(message: dict[str, Any], levels: Iterable[str | None]) -> Iterator[dict[str, Any]]:
    """The message as objects of the log: one that lists its partitions, one for rows without a partition."""
    named = sorted((level for level in levels if level is not None), key=_numbers_first)
    if None in levels:
        yield message
    if named:
        count = message.get("partitionCount", 0)
        of_all = len(named) == count and tuple(named) == all_partitions(count)
        yield {**message, "partitions": ALL_PARTITIONS if of_all else named}


def _numbers_first(level: str) -> tuple[int, str]:
    return (len(level), level) if level.isdecimal() else (_MANY_DIGITS, level)


def split_by_stream(messages: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The messages by stream, each as the stream's own log lists it, without `stream`."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for message in messages:
        found[message["stream"]].append({name: value for name, value in message.items() if name != "stream"})
    return found
